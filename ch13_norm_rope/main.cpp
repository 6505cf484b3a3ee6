#include "ch13_norm_rope/chapter.hpp"
#include "ch13_norm_rope/errata.hpp"
#include "ch13_norm_rope/ledger_command.hpp"
#include "common/cli.hpp"
#include "common/errata_command.hpp"

int main(int argc, char** argv) {
  const opbook::Chapter chapter = opbook::ch13::chapter();
  const opbook::Subcommand subcommands[] = {opbook::ch13::ledger_subcommand(),
                                            opbook::verify_subcommand(chapter),
                                            opbook::bench_subcommand(chapter),
                                            opbook::cache_subcommand(chapter),
                                            opbook::once_subcommand(chapter),
                                            opbook::show_subcommand(chapter),
                                            opbook::errata_subcommand(opbook::ch13::errata)};
  return opbook::run_program(argc, argv, "ch13", "Chapter 13: elementwise, normalisation, RoPE",
                             subcommands);
}
