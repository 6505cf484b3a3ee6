#include "ch02_roofline/ledger_command.hpp"
#include "common/cli.hpp"

int main(int argc, char** argv) {
  const opbook::Subcommand subcommands[] = {opbook::ch02::ledger_subcommand()};
  return opbook::run_program(argc, argv, "ch02", "Chapter 2: the roofline, measured", subcommands);
}
