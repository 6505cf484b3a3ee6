#include "ch28_design/ledger_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "ch28_design/report.hpp"
#include "common/error.hpp"

namespace opbook::ch28 {
namespace {

double parse_number(std::string_view flag, std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || !std::isfinite(number) || !(number > 0)) {
    throw ArgumentError(
        fmt::format("{}: got \"{}\"; allowed: a finite number above zero", flag, text));
  }
  return number;
}

/// A flag and the argument that it sets.
struct Setting {
  std::string_view flag;
  std::string_view argument;
  std::string_view value_name;
  std::string_view help;
  void (*set)(Arguments&, std::string_view flag, std::string_view text);
};

template <std::int64_t Arguments::* field>
void set_size(Arguments& a, std::string_view flag, std::string_view text) {
  a.*field = parse_size(flag, text);
}
template <std::int64_t Arguments::* field>
void set_count(Arguments& a, std::string_view flag, std::string_view text) {
  a.*field = parse_count(flag, text);
}
template <double Arguments::* field>
void set_number(Arguments& a, std::string_view flag, std::string_view text) {
  a.*field = parse_number(flag, text);
}
void set_rope_dim(Arguments& a, std::string_view flag, std::string_view text) {
  a.rope_dim = parse_size(flag, text);
}

constexpr Setting settings[] = {
    {"--tokens", "tokens", "N", "tokens, default 4096", set_size<&Arguments::tokens>},
    {"--q-heads", "q_heads", "N", "q heads of a token, default 32", set_count<&Arguments::q_heads>},
    {"--kv-heads", "kv_heads", "N", "kv heads of a token, default 8",
     set_count<&Arguments::kv_heads>},
    {"--head-dim", "head_dim", "N", "columns of a head; even, default 128",
     set_size<&Arguments::head_dim>},
    {"--bandwidth-gbs", "bandwidth_gbs", "X", "GB/s, default 4502.4",
     set_number<&Arguments::bandwidth_gbs>},
    {"--sm-count", "sm_count", "N", "multiprocessors, default 132", set_size<&Arguments::sm_count>},
    {"--on-chip-kb", "on_chip_kb", "X", "KB (1024 bytes) that a block may have, default 192",
     set_number<&Arguments::on_chip_kb>},
    {"--rows-per-block", "rows_per_block", "N", "rows of a block of design B, default 8",
     set_size<&Arguments::rows_per_block>},
    {"--rope-dim", "rope_dim", "N", "columns that turn, the last ones; even; exact only",
     set_rope_dim},
};

/// Bandwidth, SMs and budget: what a machine has, and no run sets.
bool is_of_machine(const Setting& setting) {
  return setting.argument == "bandwidth_gbs" || setting.argument == "sm_count" ||
         setting.argument == "on_chip_kb";
}

void lay_over(const GivenFlags& given, Arguments& arguments) {
  for (const Setting& setting : settings) {
    const auto found = given.find(setting.flag);
    if (found != given.end()) setting.set(arguments, setting.flag, found->second);
  }
}

Flag flag_of(const Setting& setting) {
  return {std::string(setting.flag), std::string(setting.value_name), std::string(setting.help)};
}

std::optional<Machine> asked_machine(const GivenFlags& given) {
  const auto name = given.find("--machine");
  if (name == given.end()) return std::nullopt;
  try {
    return load_machine(name->second);
  } catch (const ArgumentError& error) {
    const std::string_view text = error.what();
    throw ArgumentError(fmt::format(
        "{}{}{}", text.starts_with("machine:") ? "--" : "--machine: ", text,
        text.find("; allowed: ") == text.npos ? "; allowed: a name, or a machine file" : ""));
  }
}

Arguments parse_arguments(const GivenFlags& given, Convention convention,
                          const std::optional<Machine>& machine) {
  Arguments arguments;
  if (machine) {
    arguments.bandwidth_gbs = convention == Convention::book ? machine->bandwidth_for("copy")
                                                             : mix_bandwidth_gbs(*machine);
    arguments.sm_count = machine->sms;
    arguments.on_chip_kb = static_cast<double>(machine->on_chip_bytes_per_block) / 1024;
  }
  lay_over(given, arguments);
  return arguments;
}

Outcome run_ledger(const GivenFlags& given) {
  constexpr std::string_view conventions[] = {"book", "exact"};
  const Convention convention =
      parse_choice("--convention", value_or(given, "--convention", "book"), conventions) == 0
          ? Convention::book
          : Convention::exact;
  const std::optional<Machine> machine = asked_machine(given);
  const Arguments arguments = parse_arguments(given, convention, machine);
  try {
    const Report report = make_report(arguments, convention, machine);
    Outcome outcome;
    outcome.out = given.contains("--json") ? to_json(report).dump(2) + "\n" : to_text(report);
    outcome.exit_code = report.all_fit() ? 0 : 1;
    return outcome;
  } catch (const ArgumentError& error) {
    throw ArgumentError(in_flags(error.what(), arguments));
  }
}

}  // namespace

std::string in_flags(std::string_view refusal, const Arguments& a) {
  const std::size_t colon = std::min(refusal.find(':'), refusal.size());
  std::string subject(refusal.substr(0, colon));
  if (subject == "sizes") {
    subject = fmt::format(
        "--tokens {}, --q-heads {}, --kv-heads {}, --head-dim {}, --sm-count {}, "
        "--rows-per-block {}",
        a.tokens, a.q_heads, a.kv_heads, a.head_dim, a.sm_count, a.rows_per_block);
  } else {
    std::string flags;
    std::istringstream names(subject);
    for (std::string name; std::getline(names >> std::ws, name, ',');) {
      for (const Setting& setting : settings) {
        if (setting.argument == name) name = setting.flag;
      }
      flags += (flags.empty() ? "" : ", ") + name;
    }
    subject = flags;
  }
  return subject + std::string(refusal.substr(colon));
}

std::vector<Flag> size_flags() {
  std::vector<Flag> flags;
  for (const Setting& setting : settings) {
    if (!is_of_machine(setting)) flags.push_back(flag_of(setting));
  }
  return flags;
}

Arguments parse_sizes(const GivenFlags& given) {
  Arguments arguments;
  lay_over(given, arguments);
  return arguments;
}

Subcommand ledger_subcommand() {
  std::vector<Flag> flags;
  for (const Setting& setting : settings) flags.push_back(flag_of(setting));
  flags.push_back(
      {"--convention", "NAME", "book (default) or exact, which mends the book's errata"});
  flags.push_back(
      {"--machine", "NAME|FILE", "bandwidth, SMs and budget of this machine; flags override"});
  flags.push_back({"--json", "", "print JSON and nothing else"});
  return {"ledger", "the operator and its designs on paper", std::move(flags), run_ledger};
}

}  // namespace opbook::ch28
