#include "ch02_roofline/ledger_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/machine.hpp"
#include "common/table.hpp"

namespace opbook::ch02 {
namespace {

using nlohmann::ordered_json;

// --- What is asked for ---------------------------------------------------------------------------

float parse_scalar(const char* flag, const std::string& text) {
  float number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || !std::isfinite(number)) {
    throw ArgumentError(fmt::format("{}: got \"{}\"; allowed: a finite number", flag, text));
  }
  return number;
}

/// A refusal of the ledger, which names arguments, in the words of somebody who typed flags.
std::string in_flags(std::string_view refusal, const Arguments& arguments) {
  if (refusal.starts_with("sizes:")) {  // a product too large, of both of them
    return fmt::format("--n {}, --k {}{}", arguments.n, arguments.k, refusal.substr(5));
  }
  return fmt::format("--{}", refusal);
}

Case make_case(const Arguments& arguments) {
  try {
    return multiply_add_chain_case(arguments);
  } catch (const ArgumentError& error) {
    throw ArgumentError(in_flags(error.what(), arguments));
  }
}

/// A machine as it was asked for, and the unit of it that does the work.
struct Asked {
  std::string label;  ///< the name that was typed; of a file, the machine's own
  Machine machine;
  std::string unit;
};

Machine asked_machine(const std::string& text) {
  try {
    return load_machine(text);
  } catch (const ArgumentError& error) {
    const std::string_view why = error.what();
    throw ArgumentError(fmt::format(
        "{}{}{}", why.starts_with("machine:") ? "--" : "--machine: ", why,
        why.find("; allowed: ") == why.npos ? "; allowed: a name, or a machine file" : ""));
  }
}

std::vector<Asked> asked_roofs(const GivenFlags& given) {
  const std::string unit(
      compute_units[parse_choice("--unit", value_or(given, "--unit", "fp32"), compute_units)]);
  if (given.contains("--unit") && !given.contains("--machine")) {
    throw ArgumentError(fmt::format(
        "--unit: got \"{}\" without --machine; allowed: only together with --machine", unit));
  }
  std::vector<Asked> roofs;
  for (const std::string& text : texts_of(given, "--machine")) {
    Asked roof{text, asked_machine(text), unit};
    if (text.find('/') != text.npos || text.ends_with(".json")) roof.label = roof.machine.name;
    try {
      roof.machine.peak_for(unit);
    } catch (const ArgumentError& error) {
      throw ArgumentError(fmt::format("--{}", error.what()));
    }
    roofs.push_back(std::move(roof));
  }
  return roofs;
}

/// Flags that need another one beside them, which is not there.
void refuse_lone_flags(const GivenFlags& given) {
  for (const Flag& flag : argument_flags()) {
    const auto found = given.find(flag.name);
    if (found == given.end() || given.contains("--op")) continue;
    throw ArgumentError(fmt::format("{}: got \"{}\" without --op; allowed: only together with --op",
                                    flag.name, found->second));
  }
  constexpr const char* pair[] = {"--bytes", "--flops"};
  for (int i = 0; i < 2; ++i) {
    const auto found = given.find(pair[i]);
    if (found == given.end()) continue;
    const bool with_op = given.contains("--op");
    if (!with_op && given.contains(pair[1 - i])) continue;
    throw ArgumentError(fmt::format("{}: got \"{}\" {}; allowed: only together with {}", pair[i],
                                    found->second, with_op ? "with --op" : "alone",
                                    with_op ? "the other one, without --op" : pair[1 - i]));
  }
}

// --- Where it lies -------------------------------------------------------------------------------

std::string_view bound(const Asked& roof, std::int64_t bytes, std::int64_t flops) {
  return roof.machine.memory_bound(bytes, flops, roof.unit) ? "memory" : "compute";
}

double t_sol_us(const Asked& roof, std::int64_t bytes, std::int64_t flops) {
  return roof.machine.t_sol_us(bytes, flops, roof.unit);
}

ordered_json placed(const Asked& roof, std::int64_t bytes, std::int64_t flops) {
  return {{"bound", bound(roof, bytes, flops)}, {"t_sol_us", t_sol_us(roof, bytes, flops)}};
}

std::string_view kind_name(const Machine& machine) {
  return machine.kind == MachineKind::measured ? "measured" : "data_sheet";
}

ordered_json to_json(const Asked& roof) {
  return {{"machine", roof.label},
          {"name", roof.machine.name},
          {"kind", kind_name(roof.machine)},
          {"unit", roof.unit},
          {"bandwidth_gbs", roof.machine.bandwidth_for("copy")},
          {"peak_tflops", roof.machine.peak_for(roof.unit)},
          {"balance_point", roof.machine.balance_point(roof.unit)}};
}

/// One line a machine: by what its verdicts were made.
std::string roof_lines(std::span<const Asked> roofs) {
  std::string text;
  for (const Asked& roof : roofs) {
    const Machine& machine = roof.machine;
    text += fmt::format(
        "{}{}: {:.1f} GB/s and {:.2f} TFLOP/s ({}), {}; balance point {:.3f} FLOP/byte.\n",
        roofs.size() > 1 && roof.label != machine.name ? roof.label + ", " : "", machine.name,
        machine.bandwidth_for("copy"), machine.peak_for(roof.unit), roof.unit,
        machine.kind == MachineKind::measured ? "measured" : "by data sheet",
        machine.balance_point(roof.unit));
  }
  return text;
}

std::vector<Column> with_roof_columns(std::vector<Column> columns, std::span<const Asked> roofs) {
  for (const Asked& roof : roofs) {
    const std::string label = roofs.size() > 1 ? roof.label + ": " : "";
    columns.push_back({label + "bound", Align::left});
    columns.push_back({"t_sol us"});
  }
  return columns;
}

void add_roof_cells(std::vector<std::string>& cells, std::span<const Asked> roofs,
                    std::int64_t bytes, std::int64_t flops) {
  for (const Asked& roof : roofs) {
    cells.emplace_back(bound(roof, bytes, flops));
    cells.push_back(fixed(t_sol_us(roof, bytes, flops), 3));
  }
}

// --- An operator of which nothing is known but its bytes and FLOPs -------------------------------

Outcome place_counts(const GivenFlags& given, std::span<const Asked> roofs) {
  const std::int64_t bytes = parse_size("--bytes", given.at("--bytes"));
  const std::int64_t flops = parse_count("--flops", given.at("--flops"));  // a copy has none
  const double ai = static_cast<double>(flops) / static_cast<double>(bytes);
  if (given.contains("--json")) {
    ordered_json json = {{"bytes", bytes}, {"flops", flops}, {"ai", ai}};
    if (roofs.size() == 1) json.update(placed(roofs[0], bytes, flops));
    if (!roofs.empty()) json["machines"] = ordered_json::array();
    for (const Asked& roof : roofs) {
      ordered_json one = to_json(roof);
      one.update(placed(roof, bytes, flops));
      json["machines"].push_back(std::move(one));
    }
    return {0, json.dump(2) + "\n", ""};
  }
  Table table(with_roof_columns({{"bytes"}, {"FLOP"}, {"AI"}}, roofs));
  std::vector<std::string> cells = {thousands(bytes), thousands(flops), fixed(ai, 3)};
  add_roof_cells(cells, roofs, bytes, flops);
  table.add_row(std::move(cells));
  std::string text = table.render();
  if (!roofs.empty()) text += "\n" + roof_lines(roofs);
  return {0, text, ""};
}

// --- The chain -----------------------------------------------------------------------------------

struct Shown {
  Arguments arguments;
  Case plans;
};

ordered_json plan_json(const Plan& plan, std::span<const Asked> roofs) {
  ordered_json json = opbook::to_json(plan);
  if (roofs.size() == 1) json.update(placed(roofs[0], plan.moved_bytes(), plan.flops()));
  return json;
}

ordered_json case_json(const Shown& shown, std::span<const Asked> roofs) {
  const auto& [arguments, plans] = shown;
  ordered_json json = {
      {"op", plans.op},
      {"args", {{"n", arguments.n}, {"k", arguments.k}, {"dtype", name_of(arguments.dtype)}}},
      {"unfused", plan_json(plans.unfused, roofs)},
      {"fused", plan_json(plans.fused, roofs)},
      {"bytes_ratio", plans.bytes_ratio()}};
  if (!roofs.empty()) json["machines"] = ordered_json::array();
  for (const Asked& roof : roofs) {
    ordered_json one = to_json(roof);
    one["unfused"] = placed(roof, plans.unfused.moved_bytes(), plans.unfused.flops());
    one["fused"] = placed(roof, plans.fused.moved_bytes(), plans.fused.flops());
    json["machines"].push_back(std::move(one));
  }
  return json;
}

/// Two rows a length; its ratio stands in the second.
std::string figures(std::span<const Shown> cases, std::span<const Asked> roofs) {
  Table table(with_roof_columns(
      {{"k"}, {"plan", Align::left}, {"kernels"}, {"MB"}, {"MFLOP"}, {"AI"}, {"bytes ratio"}},
      roofs));
  const auto add = [&](std::string k, const char* name, const Plan& plan, std::string ratio) {
    std::vector<std::string> cells = {std::move(k),
                                      name,
                                      std::to_string(plan.kernels.size()),
                                      megabytes(plan.moved_bytes()),
                                      fixed(static_cast<double>(plan.flops()) / 1e6, 2),
                                      fixed(plan.ai(), 3),
                                      std::move(ratio)};
    add_roof_cells(cells, roofs, plan.moved_bytes(), plan.flops());
    table.add_row(std::move(cells));
  };
  for (const auto& [arguments, plans] : cases) {
    add(std::to_string(arguments.k), "unfused", plans.unfused, "");
    add("", "fused", plans.fused, fixed(plans.bytes_ratio(), 2));
  }
  return table.render();
}

/// The kernels of both plans. Steps beyond the first are all alike: one line stands for them.
std::string kernels(const Shown& shown) {
  Table table({{"plan", Align::left},
               {"kernel", Align::left},
               {"reads", Align::left},
               {"writes", Align::left},
               {"bytes read"},
               {"bytes written"},
               {"FLOP"}});
  const auto add = [&](const char* plan, const std::string& name, const Kernel& kernel) {
    table.add_row({plan, name, kernel.reads.front().name, kernel.writes.front().name,
                   thousands(kernel.read_bytes()), thousands(kernel.write_bytes()),
                   thousands(kernel.flops)});
  };
  const std::vector<Kernel>& steps = shown.plans.unfused.kernels;
  add("unfused", steps.front().name, steps.front());
  if (steps.size() == 2) add("", steps.back().name, steps.back());
  if (steps.size() > 2) {
    add("", fmt::format("{} to {}, each", steps[1].name, steps.back().name), steps.back());
  }
  add("fused", shown.plans.fused.kernels.front().name, shown.plans.fused.kernels.front());
  return table.render();
}

std::string case_text(const Shown& shown, std::span<const Asked> roofs) {
  const Arguments& arguments = shown.arguments;
  std::string text =
      fmt::format("{}: n {}, k {}, dtype {}\n\n{}\n{}", shown.plans.op, arguments.n, arguments.k,
                  name_of(arguments.dtype), kernels(shown), figures({&shown, 1}, roofs));
  if (!roofs.empty()) text += "\n" + roof_lines(roofs);
  return text;
}

/// The lengths at which the fused chain passes from one bound to the other.
std::string bend_lines(const Arguments& arguments, std::span<const Asked> roofs) {
  std::string text;
  for (const Asked& roof : roofs) {
    // 2 k n FLOPs on 2 n e bytes: the balance point lies at k = e times it.
    text += fmt::format("{}: the fused chain is memory-bound up to k = {:.0f}.\n", roof.label,
                        std::ceil(roof.machine.balance_point(roof.unit) *
                                  static_cast<double>(size_of(arguments.dtype))) -
                            1);
  }
  return text;
}

std::string chapter_text(std::span<const Shown> cases, std::span<const Asked> roofs) {
  const Arguments& arguments = cases.front().arguments;
  std::string text = fmt::format("Chapter 2, the ledger: multiply_add_chain, n {}, dtype {}\n\n{}",
                                 arguments.n, name_of(arguments.dtype), figures(cases, roofs));
  text += fmt::format(
      "\nUnfused, AI is {:.3f} FLOP/byte at any length; fused, it grows with k: 2 k n FLOPs on "
      "the\nsame {} MB.\n",
      cases.front().plans.unfused.ai(), megabytes(cases.front().plans.fused.moved_bytes()));
  return text + roof_lines(roofs) + bend_lines(arguments, roofs);
}

Outcome run_ledger(const GivenFlags& given) {
  refuse_lone_flags(given);
  const std::string op = value_or(given, "--op", op_names[0]);
  parse_choice("--op", op, op_names);
  const std::string convention = value_or(given, "--convention", "book");
  constexpr std::string_view conventions[] = {"book", "exact"};
  parse_choice("--convention", convention, conventions);
  if (given.contains("--bytes")) {
    return place_counts(given, asked_roofs(given));
  }
  std::vector<Shown> cases;
  if (given.contains("--op")) {
    const Arguments arguments = parse_arguments(given);
    cases.push_back({arguments, make_case(arguments)});
  } else {
    for (const std::int64_t k : shown_steps) {
      const Arguments arguments{.k = k};
      cases.push_back({arguments, make_case(arguments)});
    }
  }
  const std::vector<Asked> roofs = asked_roofs(given);
  if (!given.contains("--json")) {
    return {0, given.contains("--op") ? case_text(cases[0], roofs) : chapter_text(cases, roofs),
            ""};
  }
  if (given.contains("--op")) return {0, case_json(cases[0], roofs).dump(2) + "\n", ""};
  ordered_json list = ordered_json::array();
  for (const Shown& shown : cases) list.push_back(case_json(shown, roofs));
  return {0, ordered_json{{"cases", std::move(list)}}.dump(2) + "\n", ""};
}

}  // namespace

std::vector<Flag> argument_flags() {
  return {{"--n", "N", "elements, default 1048576"},
          {"--k", "N", "multiply-adds on each, default 64"},
          {"--dtype", "TYPE", "dtype of the elements: float32, float16, bfloat16"}};
}

std::vector<Flag> run_flags() {
  return {{"--a", "A", "the a of a * x + b, default -0.999755859375"},
          {"--b", "B", "the b of a * x + b, default 1"}};
}

Arguments parse_arguments(const GivenFlags& given) {
  Arguments arguments;
  if (given.contains("--n")) arguments.n = parse_size("--n", given.at("--n"));
  if (given.contains("--k")) {
    arguments.k = parse_size("--k", given.at("--k"));
    if (arguments.k > most_steps) {
      throw ArgumentError(fmt::format("--k: got \"{}\"; allowed: a whole number from 1 to {}",
                                      given.at("--k"), most_steps));
    }
  }
  if (given.contains("--dtype")) {
    arguments.dtype = parse_dtype("--dtype", given.at("--dtype"), dtypes);
  }
  if (given.contains("--a")) arguments.a = parse_scalar("--a", given.at("--a"));
  if (given.contains("--b")) arguments.b = parse_scalar("--b", given.at("--b"));
  return arguments;
}

Subcommand ledger_subcommand() {
  std::vector<Flag> flags = {
      {"--op", "OP", "multiply_add_chain at one length; default: at several lengths"}};
  for (Flag& flag : argument_flags()) flags.push_back(std::move(flag));
  flags.push_back({"--bytes", "B", "with --flops: any operator that moves so many bytes"});
  flags.push_back({"--flops", "F", "with --bytes: and does so many FLOPs"});
  flags.push_back({"--convention", "NAME", "book (default) or exact: both say the same here"});
  flags.push_back({"--machine", "NAME|FILE",
                   "add the time at this machine's roof, and what bounds it; may stand several "
                   "times",
                   true});
  flags.push_back({"--unit", "UNIT", "that does the work: fp32 (default), fp64, tf32, fp16, ..."});
  flags.push_back({"--json", "", "print JSON and nothing else"});
  return {"ledger", "bytes, FLOPs, and where they lie under the roof", std::move(flags),
          run_ledger};
}

}  // namespace opbook::ch02
