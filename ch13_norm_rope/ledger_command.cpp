#include "ch13_norm_rope/ledger_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/error.hpp"
#include "common/machine.hpp"
#include "common/table.hpp"

namespace opbook::ch13 {
namespace {

using nlohmann::ordered_json;

std::string flag_names(const Operator& entry) {
  std::vector<std::string> names;
  for (const std::string_view argument : entry.arguments) names.push_back(flag_name(argument));
  return fmt::format("{}", fmt::join(names, ", "));
}

/// "--m: got "5"", or "--with-y: given" where there is no value to name.
std::string found_text(std::string_view flag, std::string_view text, const Field& field) {
  return field.value_name.empty() ? fmt::format("{}: given", flag)
                                  : fmt::format("{}: got \"{}\"", flag, text);
}

/// A case as it was asked for: its name echoed, and the arguments to show.
struct Shown {
  Case plans;
  ordered_json args;
};

bool is_shown(std::string_view argument, const GivenFlags& given, Convention convention) {
  if (argument == "group_size" || argument == "with_y") return given.contains(flag_name(argument));
  if (argument == "out_dtype") {  // part of the book's operator; else an option of ours
    return convention == Convention::book || given.contains(flag_name(argument));
  }
  return true;
}

ordered_json shown_arguments(const Operator& entry, const Arguments& arguments,
                             const GivenFlags& given, Convention convention) {
  ordered_json shown = ordered_json::object();
  for (const std::string_view argument : entry.arguments) {
    if (!is_shown(argument, given, convention)) continue;
    ordered_json& value = shown[std::string(argument)];
    const Field& field = *find_field(argument);
    if (field.size != nullptr) {
      value = arguments.*field.size;
    } else if (argument == "dtype") {
      value = name_of(arguments.dtype);
    } else if (argument == "out_dtype") {
      value = name_of(arguments.out_dtype);
    } else {
      value = arguments.with_y;
    }
  }
  return shown;
}

/// A refusal of the ledger, which names arguments, in the words of somebody who typed flags.
std::string in_flags(std::string_view refusal, const Operator& entry, const Arguments& arguments) {
  const std::size_t colon = std::min(refusal.find(':'), refusal.size());
  const std::string_view subject = refusal.substr(0, colon);
  std::string flags(subject);
  if (find_field(subject) != nullptr || subject == "convention") flags = flag_name(subject);
  if (subject == "sizes") {  // a product or a sum too large, of all of them
    std::vector<std::string> sizes;
    for (const std::string_view argument : entry.arguments) {
      const auto size = find_field(argument)->size;
      if (size != nullptr && arguments.*size > 0) {
        sizes.push_back(fmt::format("{} {}", flag_name(argument), arguments.*size));
      }
    }
    flags = fmt::format("{}", fmt::join(sizes, ", "));
  }
  return flags + std::string(refusal.substr(colon));
}

Shown make_shown(std::string_view name, const GivenFlags& given, Convention convention) {
  const Operator& entry = *find_operator(name);
  const Arguments arguments = parse_arguments(entry, given);
  try {
    Case plans = entry.make_case(arguments, convention);
    plans.op = name;
    return {std::move(plans), shown_arguments(entry, arguments, given, convention)};
  } catch (const ArgumentError& error) {
    throw ArgumentError(in_flags(error.what(), entry, arguments));
  }
}

std::string_view bound_text(const Machine& machine, const Plan& plan) {
  return machine.memory_bound(plan.moved_bytes(), plan.flops()) ? "memory" : "compute";
}

ordered_json plan_json(const Plan& plan, const std::optional<Machine>& machine) {
  ordered_json json = to_json(plan);
  if (machine) {
    json["bound"] = bound_text(*machine, plan);
    json["t_sol_us"] = machine->t_sol_us(plan.moved_bytes(), plan.flops());
  }
  return json;
}

ordered_json case_json(const Shown& shown, const std::optional<Machine>& machine) {
  return {{"op", shown.plans.op},
          {"args", shown.args},
          {"unfused", plan_json(shown.plans.unfused, machine)},
          {"fused", plan_json(shown.plans.fused, machine)},
          {"bytes_ratio", shown.plans.bytes_ratio()}};
}

/// Two rows a case; its ratio stands in the second.
std::string figures(std::span<const Shown> cases, const std::optional<Machine>& machine) {
  std::vector<Column> columns = {
      {"case", Align::left}, {"plan", Align::left}, {"kernels"}, {"MB"}, {"MFLOP"}, {"AI"},
      {"bytes ratio"}};
  if (machine) columns.insert(columns.end(), {{"bound", Align::left}, {"t_sol us"}});
  Table table(columns);
  const auto add = [&](std::string_view op, std::string_view name, const Plan& plan,
                       std::string_view ratio) {
    std::vector<std::string> cells = {std::string(op),
                                      std::string(name),
                                      std::to_string(plan.kernels.size()),
                                      megabytes(plan.moved_bytes()),
                                      fixed(static_cast<double>(plan.flops()) / 1e6, 2),
                                      fixed(plan.ai(), 3),
                                      std::string(ratio)};
    if (machine) {
      cells.emplace_back(bound_text(*machine, plan));
      cells.push_back(fixed(machine->t_sol_us(plan.moved_bytes(), plan.flops()), 3));
    }
    table.add_row(std::move(cells));
  };
  for (const auto& [plans, args] : cases) {
    add(plans.op, "unfused", plans.unfused, "");
    add("", "fused", plans.fused, fixed(plans.bytes_ratio(), 2));
  }
  return table.render();
}

/// Every kernel of both plans, in bytes and FLOPs to the last one.
std::string kernels(const Case& plans) {
  const auto names = [](const std::vector<Tensor>& tensors) {
    std::string text;
    for (const Tensor& tensor : tensors) text += (text.empty() ? "" : " ") + tensor.name;
    return text;
  };
  Table table({{"plan", Align::left},
               {"kernel", Align::left},
               {"reads", Align::left},
               {"writes", Align::left},
               {"bytes read"},
               {"bytes written"},
               {"FLOP"}});
  const auto add = [&](std::string plan_name, const Plan& plan) {
    for (const Kernel& kernel : plan.kernels) {
      table.add_row({plan_name, kernel.name, names(kernel.reads), names(kernel.writes),
                     thousands(kernel.read_bytes()), thousands(kernel.write_bytes()),
                     thousands(kernel.flops)});
      plan_name.clear();
    }
  };
  add("unfused", plans.unfused);
  add("fused", plans.fused);
  return table.render();
}

std::string machine_line(const Machine& machine) {
  return fmt::format("{}: balance point {:.3f} FLOP/byte (fp32).\n", machine.name,
                     machine.balance_point());
}

/// One case: its arguments, its kernels, its figures.
std::string case_text(const Shown& shown, std::string_view convention,
                      const std::optional<Machine>& machine) {
  std::string text = shown.plans.op;
  for (const auto& [argument, value] : shown.args.items()) {
    text += fmt::format("{} {} {}", text == shown.plans.op ? ":" : ",", argument,
                        value.is_string() ? value.get<std::string>() : value.dump());
  }
  text += fmt::format("; {} convention\n\n{}\n{}", convention, kernels(shown.plans),
                      figures({&shown, 1}, machine));
  if (machine) text += "\n" + machine_line(*machine);
  return text;
}

bool fused_moves_less(const Shown& shown) {
  return shown.plans.fused.moved_bytes() < shown.plans.unfused.moved_bytes();
}

/// What the book closes its table with, computed from the cases.
std::string closing(std::span<const Shown> cases, const std::optional<Machine>& machine) {
  std::vector<const Plan*> plans;
  for (const Shown& shown : cases) {
    plans.push_back(&shown.plans.unfused);
    plans.push_back(&shown.plans.fused);
  }
  const auto [low, high] = std::minmax_element(
      plans.begin(), plans.end(),
      [](const Plan* left, const Plan* right) { return left->ai() < right->ai(); });
  std::string text = fmt::format(
      "AI of the {} plans: {:.3f} to {:.3f} FLOP/byte. Each is memory-bound on a machine whose\n"
      "balance point lies above {:.3f} FLOP/byte.\n",
      plans.size(), (*low)->ai(), (*high)->ai(), (*high)->ai());
  text += fmt::format("{} of {} fused plans move less than their unfused plan.\n",
                      std::count_if(cases.begin(), cases.end(), fused_moves_less), cases.size());
  if (machine) {
    const auto bound = std::count_if(plans.begin(), plans.end(), [&](const Plan* plan) {
      return machine->memory_bound(plan->moved_bytes(), plan->flops());
    });
    text += fmt::format("{}{} of {} plans are memory-bound there.\n", machine_line(*machine), bound,
                        plans.size());
  }
  return text;
}

void refuse_arguments_without_op(const GivenFlags& given) {
  for (const Field& field : fields) {
    const std::string flag = flag_name(field.argument);
    const auto found = given.find(flag);
    if (found == given.end()) continue;
    throw ArgumentError(fmt::format("{} without --op; allowed: only together with --op",
                                    found_text(flag, found->second, field)));
  }
}

/// The operators asked for: the one after --op, or the book's five.
std::vector<std::string_view> asked_for(const GivenFlags& given) {
  const auto op = given.find("--op");
  if (op == given.end()) {
    refuse_arguments_without_op(given);
    return {std::begin(book_cases), std::end(book_cases)};
  }
  std::vector<std::string_view> names;
  for (const Operator& entry : operators()) {
    names.push_back(entry.name);
    names.insert(names.end(), entry.aliases.begin(), entry.aliases.end());
  }
  return {names[parse_choice("--op", op->second, names)]};
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

ordered_json cases_json(std::span<const Shown> cases, const std::optional<Machine>& machine) {
  ordered_json list = ordered_json::array();
  for (const Shown& shown : cases) list.push_back(case_json(shown, machine));
  return {{"cases", std::move(list)}};
}

Outcome run_ledger(const GivenFlags& given) {
  constexpr std::string_view conventions[] = {"book", "exact"};
  const std::vector<std::string_view> names = asked_for(given);
  const std::string_view convention = conventions[parse_choice(
      "--convention", value_or(given, "--convention", "book"), conventions)];
  std::vector<Shown> cases;
  for (const std::string_view name : names) {
    cases.push_back(
        make_shown(name, given, convention == "book" ? Convention::book : Convention::exact));
  }
  const std::optional<Machine> machine = asked_machine(given);

  Outcome outcome;
  const bool one = given.contains("--op");
  if (given.contains("--json")) {
    outcome.out =
        (one ? case_json(cases.front(), machine) : cases_json(cases, machine)).dump(2) + "\n";
  } else if (one) {
    outcome.out = case_text(cases.front(), convention, machine);
  } else {
    outcome.out = fmt::format("Chapter 13, the ledger, {} convention\n\n{}\n{}", convention,
                              figures(cases, machine), closing(cases, machine));
  }
  if (!std::all_of(cases.begin(), cases.end(), fused_moves_less)) outcome.exit_code = 1;
  return outcome;
}

}  // namespace

std::string flag_name(std::string_view argument) {
  std::string name = fmt::format("--{}", argument);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::vector<Flag> argument_flags() {
  std::vector<Flag> flags;
  for (const Field& field : fields) {
    flags.push_back(
        {flag_name(field.argument), std::string(field.value_name), std::string(field.help)});
  }
  return flags;
}

Arguments parse_arguments(const Operator& entry, const GivenFlags& given) {
  Arguments arguments = entry.defaults;
  for (const Field& field : fields) {
    const std::string flag = flag_name(field.argument);
    const auto found = given.find(flag);
    if (found == given.end()) continue;
    const std::string& text = found->second;
    const auto& taken = entry.arguments;
    if (std::find(taken.begin(), taken.end(), field.argument) == taken.end()) {
      throw ArgumentError(fmt::format("{}, which {} does not take; allowed: {}",
                                      found_text(flag, text, field), entry.name,
                                      flag_names(entry)));
    }
    if (field.size != nullptr) {
      arguments.*field.size = parse_size(flag, text);
    } else if (field.argument == "dtype") {
      arguments.dtype = parse_dtype(flag, text, input_dtypes);
    } else if (field.argument == "out_dtype") {
      arguments.out_dtype = parse_dtype(flag, text, code_dtypes);
    } else {
      arguments.with_y = true;
    }
  }
  return arguments;
}

Subcommand ledger_subcommand() {
  std::vector<Flag> flags = {
      {"--op", "OP", "one case, its kernels listed; default: the book's five"}};
  for (Flag& flag : argument_flags()) flags.push_back(std::move(flag));
  flags.push_back(
      {"--convention", "NAME", "book (default) or exact, which mends the book's errata"});
  flags.push_back(
      {"--machine", "NAME|FILE", "add the time at this machine's roof, and what bounds it"});
  flags.push_back({"--json", "", "print JSON and nothing else"});
  return {"ledger", "bytes and FLOPs on paper, unfused against fused", std::move(flags),
          run_ledger};
}

}  // namespace opbook::ch13
