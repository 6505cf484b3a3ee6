#include "ch28_design/chapter.hpp"
#include "ch28_design/claims.hpp"
#include "ch28_design/errata.hpp"
#include "ch28_design/ledger_command.hpp"
#include "common/cli.hpp"
#include "common/errata_command.hpp"

int main(int argc, char** argv) {
  const opbook::Chapter chapter = opbook::ch28::chapter();
  const opbook::Subcommand subcommands[] = {
      opbook::ch28::ledger_subcommand(),
      opbook::verify_subcommand(chapter),
      opbook::bench_subcommand(chapter),
      opbook::cache_subcommand(chapter),
      opbook::once_subcommand(chapter),
      opbook::ch28::with_conclusion(opbook::show_subcommand(chapter)),
      opbook::ch28::claims_subcommand(),
      opbook::errata_subcommand(opbook::ch28::errata)};
  return opbook::run_program(argc, argv, "ch28", "Chapter 28: three designs of one operator",
                             subcommands);
}
