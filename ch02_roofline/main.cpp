#include "ch02_roofline/bench_command.hpp"
#include "ch02_roofline/chapter.hpp"
#include "ch02_roofline/ledger_command.hpp"
#include "common/cli.hpp"

int main(int argc, char** argv) {
  const opbook::Chapter chapter = opbook::ch02::chapter();
  const opbook::Subcommand subcommands[] = {
      opbook::ch02::ledger_subcommand(),
      opbook::verify_subcommand(chapter),
      opbook::ch02::bench_subcommand(chapter),
      opbook::cache_subcommand(chapter),
      opbook::once_subcommand(chapter),
      opbook::ch02::with_bends(opbook::show_subcommand(chapter)),
      opbook::ch02::roofs_subcommand()};
  return opbook::run_program(argc, argv, "ch02", "Chapter 2: the roofline, measured", subcommands);
}
