#include "common/cli.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <sstream>

#include "common/error.hpp"

namespace opbook {
namespace {

[[noreturn]] void refuse(std::string_view argument, std::string_view allowed) {
  throw ArgumentError(fmt::format("argument: got \"{}\"; allowed: {}", argument, allowed));
}

/// `--flag=value` becomes two arguments, so that an empty value stays a value and a flag that takes
/// none leaves it over; CLI11 by itself accepts `--json=true` and reads `--m= 4` as `--m 4`. What
/// it would swallow without a word, `--` and `++`, is refused.
std::vector<std::string> split_assignments(std::span<const std::string> arguments) {
  std::vector<std::string> split;
  for (const std::string& argument : arguments) {
    if (argument == "--" || argument == "++") refuse(argument, "flags and their values");
    const std::size_t equals = argument.find('=');
    if (argument.starts_with("--") && equals != std::string::npos) {
      split.push_back(argument.substr(0, equals));
      split.push_back(argument.substr(equals + 1));
    } else {
      split.push_back(argument);
    }
  }
  return split;
}

void add_subcommand(CLI::App& app, const Subcommand& subcommand) {
  CLI::App* added = app.add_subcommand(subcommand.name, subcommand.about)->allow_extras();
  for (const Flag& flag : subcommand.flags) {
    CLI::Option* option = flag.value_name.empty()
                              ? added->add_flag(flag.name)
                              : added->add_option(flag.name)->type_name(flag.value_name);
    // How often each may stand is for given_flags() to say, in our words.
    option->description(flag.help)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
}

/// "a, b, c": `name` of every item.
template <class Range, class Name>
std::string listed(const Range& range, Name name) {
  std::string list;
  for (const auto& item : range) {
    if (!list.empty()) list += ", ";
    list += std::invoke(name, item);
  }
  return list;
}

/// Throws ArgumentError where an argument belongs to nothing.
void refuse_extras(const CLI::App& app, std::string_view allowed) {
  const std::vector<std::string> extras = app.remaining();
  if (!extras.empty()) refuse(extras.front(), allowed);
}

GivenFlags given_flags(const CLI::App& app, const Subcommand& subcommand) {
  GivenFlags given;
  for (const Flag& flag : subcommand.flags) {
    const CLI::Option* option = app.get_option(flag.name);
    if (option->count() == 0) continue;
    std::string& texts = given[flag.name];
    if (option->count() > 1 && !flag.repeats) {
      throw ArgumentError(
          fmt::format("{}: given {} times; allowed: once", flag.name, option->count()));
    }
    if (flag.value_name.empty()) continue;
    for (const std::string& text : option->results()) {
      if (text.starts_with('-') && app.get_option_no_throw(text) != nullptr) {  // `--m --n 4`
        throw ArgumentError(
            fmt::format("{}: got the flag \"{}\"; allowed: a value", flag.name, text));
      }
      texts += (&text == &option->results().front() ? "" : "\n") + text;
    }
  }
  return given;
}

Outcome parse_and_run(CLI::App& app, std::span<const Subcommand> subcommands,
                      std::span<const std::string> arguments) {
  for (const Subcommand& subcommand : subcommands) add_subcommand(app, subcommand);
  const std::vector<std::string> split = split_assignments(arguments);
  std::vector<std::string> reversed(split.rbegin(), split.rend());  // as CLI11 takes a vector
  try {
    app.parse(reversed);
  } catch (const CLI::ArgumentMismatch&) {  // the last argument is a flag that takes a value
    throw ArgumentError(fmt::format("{}: got no value; allowed: with one behind it", split.back()));
  }
  const std::string names = listed(subcommands, &Subcommand::name);
  refuse_extras(app, names);
  for (const Subcommand& subcommand : subcommands) {
    const CLI::App& parsed = *app.get_subcommand(subcommand.name);
    if (!parsed.parsed()) continue;
    const GivenFlags given = given_flags(parsed, subcommand);
    refuse_extras(parsed, listed(subcommand.flags, &Flag::name));
    return subcommand.run(given);
  }
  throw ArgumentError("subcommand: got none; allowed: " + names);
}

Outcome failure(std::string_view program, int exit_code, std::string text) {
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
  std::replace_if(text.begin(), text.end(), is_control, ' ');  // whatever it quotes, it is one line
  return {exit_code, "", fmt::format("{}: {}\n", program, text)};
}

}  // namespace

std::string value_or(const GivenFlags& given, std::string_view flag, std::string_view fallback) {
  const auto found = given.find(flag);
  return found == given.end() ? std::string(fallback) : found->second;
}

std::vector<std::string> texts_of(const GivenFlags& given, std::string_view flag) {
  std::vector<std::string> texts;
  const auto found = given.find(flag);
  if (found == given.end()) return texts;
  std::istringstream lines(found->second + "\n");
  for (std::string line; std::getline(lines, line);) texts.push_back(line);
  return texts;
}

Outcome run_subcommand(std::string_view program, std::string_view about,
                       std::span<const Subcommand> subcommands,
                       std::span<const std::string> arguments) {
  CLI::App app{std::string(about), std::string(program)};
  app.allow_extras()->require_subcommand(0, 1);
  try {
    return parse_and_run(app, subcommands, arguments);
  } catch (const CLI::CallForHelp& help) {
    std::ostringstream text;
    app.exit(help, text, text);
    return {0, text.str(), ""};
  } catch (const CLI::ParseError& error) {
    return failure(program, 2, error.what());
  } catch (const ArgumentError& error) {
    return failure(program, 2, error.what());
  } catch (const DeviceUnavailable& error) {
    return failure(program, 3, error.what());
  } catch (const std::exception& error) {
    return failure(program, 1, error.what());
  }
}

int run_program(int argc, char** argv, std::string_view program, std::string_view about,
                std::span<const Subcommand> subcommands) {
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  Outcome outcome = run_subcommand(program, about, subcommands, arguments);
  const std::size_t written = std::fwrite(outcome.out.data(), 1, outcome.out.size(), stdout);
  if (written != outcome.out.size() || std::fflush(stdout) != 0) {
    outcome = failure(program, 1, fmt::format("stdout: write failed: {}", std::strerror(errno)));
  }
  std::fputs(outcome.err.c_str(), stderr);
  return outcome.exit_code;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const bool digits_alone = !text.starts_with('-') && (text == "0" || !text.starts_with('0'));
  if (error != std::errc() || rest != end || !digits_alone) return std::nullopt;
  return number;
}

std::int64_t parse_size(std::string_view flag, std::string_view text) {
  const std::optional<std::int64_t> size = whole_number(text);
  if (!size || *size == 0) refuse_number(flag, text, "a whole number above zero, at most 2^63 - 1");
  return *size;
}

std::int64_t parse_count(std::string_view flag, std::string_view text) {
  const std::optional<std::int64_t> count = whole_number(text);
  if (!count) refuse_number(flag, text, "a whole number from zero up, at most 2^63 - 1");
  return *count;
}

void refuse_number(std::string_view flag, std::string_view text, std::string_view allowed) {
  const bool decorated = (text.size() > 1 && text.starts_with('0')) ||
                         text.find_first_of("+ ") != std::string_view::npos;
  const bool number = decorated && text.find_first_not_of("+ 0123456789") == std::string_view::npos;
  throw ArgumentError(fmt::format("{}: got \"{}\"; allowed: {}{}", flag, text, allowed,
                                  number ? ", without sign, space or leading zero" : ""));
}

std::size_t parse_choice(std::string_view flag, std::string_view text,
                         std::span<const std::string_view> allowed) {
  const auto found = std::find(allowed.begin(), allowed.end(), text);
  if (found == allowed.end()) {
    throw ArgumentError(fmt::format("{}: got \"{}\"; allowed: {}", flag, text,
                                    listed(allowed, [](std::string_view name) { return name; })));
  }
  return static_cast<std::size_t>(found - allowed.begin());
}

Dtype parse_dtype(std::string_view flag, std::string_view text, std::span<const Dtype> allowed) {
  std::vector<std::string_view> names;
  for (const Dtype dtype : allowed) names.push_back(name_of(dtype));
  return allowed[parse_choice(flag, text, names)];
}

}  // namespace opbook
