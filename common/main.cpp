// The program behind those commands of ./book that belong to no chapter.

#include "common/cli.hpp"
#include "common/compare_command.hpp"

int main(int argc, char** argv) {
  const opbook::Subcommand subcommands[] = {opbook::compare_subcommand()};
  return opbook::run_program(argc, argv, "opbook", "What belongs to no chapter", subcommands);
}
