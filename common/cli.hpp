#pragma once

// What every chapter's program shares: subcommands with flags, strict readings of their values, one
// line on stderr for whatever goes wrong, and nothing on stdout until all of it is known.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/dtype.hpp"

namespace opbook {

/// One flag that a subcommand takes; or one argument that stands by itself, taken in the order in
/// which the subcommand lists them. Each of either kind may be left out.
struct Flag {
  std::string name;        ///< as it is typed: "--m"; "MINE" of an argument that stands by itself
  std::string value_name;  ///< what --help calls its value; empty where the flag takes none
  std::string help;
  bool repeats = false;  ///< whether it may stand more than once; see texts_of()
};

/// The flags found on a command line, each with the text given for it ("" where it takes none). Of
/// a flag that repeats, the texts are the lines of one.
using GivenFlags = std::map<std::string, std::string, std::less<>>;

/// The text given for `flag`, or `fallback` where it was left out.
std::string value_or(const GivenFlags& given, std::string_view flag, std::string_view fallback);

/// All that was given for a flag that repeats, in order.
std::vector<std::string> texts_of(const GivenFlags& given, std::string_view flag);

/// What a program leaves behind: its exit code and all that it prints.
struct Outcome {
  int exit_code = 0;
  std::string out;
  std::string err;
};

/// One subcommand of a program. `run` returns its whole output; what it throws becomes one line on
/// stderr and an exit code: ArgumentError 2, DeviceUnavailable 3, CheckFailed and the rest 1. Only
/// progress may be printed from within, on stderr.
struct Subcommand {
  std::string name;
  std::string about;
  std::vector<Flag> flags;
  std::function<Outcome(const GivenFlags&)> run;
};

/// Reads the arguments (without the program's own name), runs the one subcommand they name and
/// prints nothing. A flag may stand once, as `--flag value` or `--flag=value`; whatever is unknown,
/// repeated (unless it may be), missing or left over has exit code 2; `--help` has 0.
Outcome run_subcommand(std::string_view program, std::string_view about,
                       std::span<const Subcommand> subcommands,
                       std::span<const std::string> arguments);

/// run_subcommand() on main's arguments, printed; returns main's exit code, which is 1 where stdout
/// does not take the output.
int run_program(int argc, char** argv, std::string_view program, std::string_view about,
                std::span<const Subcommand> subcommands);

/// A whole number from 0 to 2^63 - 1 in decimal digits alone: no sign, no space, and no leading
/// zero, which is octal to some programs. None for any other text.
std::optional<std::int64_t> whole_number(std::string_view text);

/// whole_number() above zero; throws ArgumentError for any other text.
std::int64_t parse_size(std::string_view flag, std::string_view text);

/// whole_number(), zero too; throws ArgumentError for any other text.
std::int64_t parse_count(std::string_view flag, std::string_view text);

/// Throws the ArgumentError for a text that is not the number that is allowed; where it is one but
/// for its sign, spaces or zeros, it says that these are not.
[[noreturn]] void refuse_number(std::string_view flag, std::string_view text,
                                std::string_view allowed);

/// The index of `text` among the allowed names; throws ArgumentError, listing them, where it is
/// none of them.
std::size_t parse_choice(std::string_view flag, std::string_view text,
                         std::span<const std::string_view> allowed);

/// One of the allowed dtypes by its name; throws ArgumentError for any other text.
Dtype parse_dtype(std::string_view flag, std::string_view text, std::span<const Dtype> allowed);

}  // namespace opbook
