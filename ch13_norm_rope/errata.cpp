#include "ch13_norm_rope/errata.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "ch13_norm_rope/errata_figures.hpp"
#include "ch13_norm_rope/ledger.hpp"
#include "ch13_norm_rope/ledger_command.hpp"
#include "ch13_norm_rope/operators.hpp"
#include "common/error.hpp"
#include "common/machine.hpp"
#include "common/table.hpp"

namespace opbook::ch13 {
namespace {

constexpr Convention book = Convention::book;
constexpr Convention exact = Convention::exact;

/// The columns that share a scale in the book's quantising kernel.
constexpr std::int64_t listed_group_size = 128;

const Arguments& defaults(std::string_view op) {
  return find_operator(op)->defaults;
}

/// The book's quantising kernel as it is listed: it writes y, and a scale for each group.
Arguments as_listed() {
  Arguments arguments = defaults("rms_norm_rope_quant");
  arguments.group_size = listed_group_size;
  arguments.with_y = true;
  return arguments;
}

/// What the ledger of norm_rope_quant answers to values of its flags.
Figures by_answer(const std::vector<std::pair<std::string, std::int64_t>>& tries) {
  Figures figures{"norm_rope_quant with", {{"answer", Unit::text}}, {}};
  for (const auto& [flag, value] : tries) {
    std::string answer = "accepted";
    try {
      ledger_subcommand().run({{"--op", "norm_rope_quant"}, {flag, std::to_string(value)}});
    } catch (const ArgumentError& refusal) {
      answer = refusal.what();
    }
    figures.lines.push_back({fmt::format("{} {}", flag, value), {answer}});
  }
  return figures;
}

// The entries.

Erratum scales_of_two_shapes() {
  const Arguments token = defaults("rms_norm_rope_quant");
  const Arguments group = as_listed();
  const Tensor of_token = find_tensor(rms_norm_rope_quant_case(token, exact).fused, "scale");
  const Tensor of_group = find_tensor(rms_norm_rope_quant_case(group, exact).fused, "scale");
  return {1,
          "Two quantisations under one name",
          "Text and reference make one scale for each token; the quantising kernel makes one for "
          "each group of columns. Held against each other, they must fail by their shapes alone.",
          "Both exist and are named apart: per token unless --group-size asks for groups. A "
          "comparison of arrays of different shapes fails before it looks at a value.",
          {"scale",
           {{"shape", Unit::text}, {"elements", Unit::count}, {"size", Unit::bytes}},
           {{"text and reference: per token",
             {fmt::format("[{}]", token.m), of_token.elements, of_token.bytes()}},
            {fmt::format("kernel: per group of {}", group.group_size),
             {fmt::format("[{}, {}]", group.m, group.n / group.group_size), of_group.elements,
              of_group.bytes()}}}}};
}

Erratum kernel_is_not_the_ledgers() {
  const Case ledger = rms_norm_rope_quant_case(defaults("rms_norm_rope_quant"), book);
  const Case right = rms_norm_rope_quant_case(defaults("rms_norm_rope_quant"), exact);
  const Case listed = rms_norm_rope_quant_case(as_listed(), exact);
  return {
      2, "The ledger's fused plan is not the kernel that is listed",
      "The fused plan reads x, w, cos and sin and writes q and one number a row. The kernel "
      "writes y as well, and a scale for each group of columns.",
      "What is charged is what runs: y and group scales are options, of the ledger as of the "
      "operator (--with-y, --group-size). Without them the book's figure stands.",
      by_plan({{"the book's ledger", ledger},
               {"kernel as listed, the book's unfused plan", {"", ledger.unfused, listed.fused}},
               {"kernel as listed, group scales in both plans", listed},
               {"no y, a scale per token, exact", right}})};
}

Erratum fusing_does_not_save_q() {
  const Case plans = rms_norm_rope_quant_case(defaults("rms_norm_rope_quant"), exact);
  Figures figures{
      "tensor",
      {{"unfused", Unit::megabytes}, {"fused", Unit::megabytes}, {"saved", Unit::megabytes}},
      {}};
  const auto add = [&](std::string label, std::int64_t unfused, std::int64_t fused) {
    figures.lines.push_back({std::move(label), {unfused, fused, unfused - fused}});
  };
  for (const char* tensor : {"normed", "rotated", "q"}) {
    add(tensor, bytes_spent_on(tensor, plans.unfused), bytes_spent_on(tensor, plans.fused));
  }
  add("all tensors", plans.unfused.moved_bytes(), plans.fused.moved_bytes());
  return {3, "Fusing does not save q", "Fusing the quantisation saves writing q.",
          "It saves normed and rotated, each written by one kernel and read by the next. q is "
          "written either way.",
          figures};
}

Erratum quant_kernel_checks_nothing() {
  const std::int64_t n = defaults("norm_rope_quant").n;
  return {4, "The quantising kernel lacks checks",
          "Nothing ensures rd <= n, the reference breaks at rd = 0, and of the outputs only scale "
          "is ever compared, q and y are not.",
          "rd is even and at most n. On the command line it is above zero; the library's operators "
          "take rd = 0 and turn nothing. All outputs are verified: y within its tolerance, then "
          "scale and q bit for bit against quantising that y.",
          by_answer({{"--rope-dim", n}, {"--rope-dim", n + 2}, {"--rope-dim", 0}})};
}

Erratum layer_norm_statistics() {
  const Arguments& a = defaults("layer_norm");
  return {5, "layer_norm lacks a square, and its statistics",
          "7mn FLOPs unfused, 6mn + 2m fused: the square is missing from the fused count. No "
          "unfused kernel makes rstd of the sums, and none reads mean and rstd, 2 * 4m bytes.",
          "A kernel `stats` makes mean and rstd, 6m FLOPs; centered and scaled read them. Fused: "
          "the mean, then the mean of (x - mean)^2, then y, 8mn + 4m FLOPs, since x - mean is "
          "formed twice.",
          by_kernel(layer_norm_case(a, book), layer_norm_case(a, exact))};
}

Erratum rms_norm_totals() {
  const Arguments& a = defaults("rms_norm");
  return {6, "rms_norm's two totals agree by accident",
          "4mn + 2m FLOPs in both plans. The unfused one counts the addition of eps and not the "
          "division by n, the fused one the division and not the addition.",
          "Both are done, in either plan: 4mn + 3m FLOPs.",
          by_kernel(rms_norm_case(a, book), rms_norm_case(a, exact))};
}

Erratum tables_belong_to_the_token() {
  const Arguments& a = defaults("rope");
  const Case ledger = rope_case(a, book);
  const std::int64_t values = ledger.fused.kernels.front().writes.front().elements;
  const auto with_tables = [&](std::int64_t elements) {
    const auto both = [&](const Plan& plan) {
      return charged(charged(plan, "cos", elements), "sin", elements);
    };
    return Case{"rope", both(ledger.unfused), both(ledger.fused)};
  };
  return {7, "RoPE's tables belong to the token",
          "cos and sin are charged once for each head of a token, and at two widths: full in the "
          "unfused plan, half in the fused one.",
          "All heads of a token turn by the same angles, and cos and sin of a pair are one number "
          "each: tables of half width, once a token, in both plans. (Chapter 28 charges by the "
          "token, but at full width.)",
          by_plan({{"by head, full width against half: the book's", ledger},
                   {"by head, half width in both", with_tables(values / 2)},
                   {"by head, full width in both", with_tables(values)},
                   {"by token, half width in both: exact", rope_case(a, exact)}})};
}

/// The ranges over the book's five cases, with `change` made to their default arguments.
template <class Change>
FigureLine ranges(std::string label, Convention convention, Change change) {
  std::vector<double> ratios, intensities;
  for (const std::string_view op : book_cases) {
    Arguments arguments = defaults(op);
    change(arguments);
    const Case plans = find_operator(op)->make_case(arguments, convention);
    ratios.push_back(plans.bytes_ratio());
    intensities.insert(intensities.end(), {plans.unfused.ai(), plans.fused.ai()});
  }
  const auto [least_ratio, most_ratio] = std::minmax_element(ratios.begin(), ratios.end());
  const auto [least_ai, most_ai] = std::minmax_element(intensities.begin(), intensities.end());
  return {std::move(label), {*least_ratio, *most_ratio, *least_ai, *most_ai}};
}

Erratum range_is_fixed_text() {
  return {8,
          "The closing range is fixed text",
          "The table closes with a sentence that states the range of the ratios, whatever cases "
          "were computed.",
          "The range is computed from the cases shown. It moves with convention, dtype and sizes.",
          {"the five cases",
           {{"least ratio", Unit::ratio},
            {"greatest ratio", Unit::ratio},
            {"least AI", Unit::flop_per_byte},
            {"greatest AI", Unit::flop_per_byte}},
           {ranges("the book's sizes, book convention", book, [](Arguments&) {}),
            ranges("the book's sizes, exact convention", exact, [](Arguments&) {}),
            ranges("all in float32, exact", exact, [](Arguments& a) { a.dtype = Dtype::float32; }),
            ranges("one row or token, exact", exact, [](Arguments& a) { a.m = a.tokens = 1; })}}};
}

Erratum json_among_tables() {
  return {9,
          "--json printed tables around the JSON",
          "With --json the listing prints its tables too, before and after the JSON: no program "
          "can read that.",
          "With --json stdout is one JSON value and nothing else; errors go to stderr.",
          {}};
}

Erratum lower_bound_is_none() {
  const Machine machine = load_machine("h200");
  Figures figures{"case",
                  {{"largest tensor", Unit::megabytes},
                   {"unfused, on paper", Unit::megabytes},
                   {"least at DRAM", Unit::megabytes}},
                  {}};
  for (const std::string_view op : book_cases) {
    const Case plans = find_operator(op)->make_case(defaults(op), exact);
    // Intermediates that never leave the cache cost nothing; inputs and outputs, each moved once,
    // are what the fused plan moves.
    figures.lines.push_back({std::string(op),
                             {largest_tensor_bytes(plans.unfused), plans.unfused.moved_bytes(),
                              plans.fused.moved_bytes()}});
  }
  figures.lines.push_back({fmt::format("L2 of one {}", machine.name),
                           {machine.l2_bytes, std::monostate(), std::monostate()}});
  return {20, "\"A lower bound\" is not one", "A plan's bytes are a lower bound of its traffic.",
          "An intermediate that is still in the last-level cache when it is read never reaches "
          "DRAM, and each of the chapter's default tensors fits there: the unfused plan may cost "
          "less than on paper, down to what the fused one moves. Measure beyond the cache, let "
          "counters show what DRAM saw; `cache` replays what a cache of each size would leave.",
          figures};
}

Erratum rotation_copies_what_it_does_not_turn() {
  const Arguments& a = defaults("rms_norm_rope_quant");
  const Case ledger = rms_norm_rope_quant_case(a, book);
  // In place: rope reads and writes the last rd columns of normed, and quant reads all of it.
  const std::int64_t tail = a.m * a.rope_dim;
  Plan in_place = ledger.unfused;
  Kernel& rope = in_place.kernels[1];
  rope.reads.front().elements = tail;
  rope.writes = {rope.reads.front()};
  in_place.kernels[2].reads = in_place.kernels[0].writes;
  return {21, "The unfused rotation copies what it does not turn",
          "In norm_rope_quant the unfused rope reads and writes all n columns, though rd of them "
          "turn.",
          "Turned in place, only the tail is read and written. A gain is measured against a fair "
          "baseline, and that baseline is the smaller plan.",
          by_plan({{"rope copies all n columns: the book's, and exact", ledger},
                   {"rope turns the tail in place", {"", in_place, ledger.fused}}})};
}

Erratum weights_by_call_or_by_block() {
  const Arguments& a = defaults("rms_norm");
  const Case ledger = rms_norm_case(a, book);
  const Tensor w = find_tensor(ledger.fused, "w");
  return {22, "w once a call here, once a block in chapter 28",
          "This chapter charges the weights once a call, chapter 28 once a block.",
          fmt::format("Exact bytes are the distinct bytes of a call: w once. By chapter 28's rule, "
                      "at one row a block, w would cost as much as x. The cache decides: w is {} "
                      "bytes, which stay in any L2, so DRAM sees them once.",
                      thousands(w.bytes())),
          by_plan({{"w once a call: the book's, and exact", ledger},
                   {"w once a block of the fused kernel, a row each",
                    {"", ledger.unfused, charged(ledger.fused, "w", a.m * w.elements)}}})};
}

Erratum operations_left_out() {
  const Arguments& quant = defaults("norm_rope_quant");
  const Arguments& norm = defaults("layer_norm");
  Figures figures =
      by_kernel(rms_norm_rope_quant_case(quant, book), rms_norm_rope_quant_case(quant, exact));
  figures.lines.push_back(kernel_line("layer_norm, fused",
                                      &layer_norm_case(norm, book).fused.kernels.front(),
                                      layer_norm_case(norm, exact).fused.kernels.front()));
  return {24, "Operations that norm_rope_quant and layer_norm leave out",
          "norm repeats the fault of erratum 6, 4mn + 2m; quant, 3mn + m, leaves out the floor "
          "under amax; layer_norm's 2m leaves out its two divisions by n.",
          "norm 4mn + 3m; quant 3mn and two for each scale, floor and division; layer_norm 4m: two "
          "divisions, the addition of eps, the rsqrt.",
          figures};
}

Erratum a_row_fills_no_registers() {
  constexpr std::int64_t registers = 65536;  // 32 bits each, of an SM; one block may have them all
  constexpr std::int64_t threads = 256;
  const auto row = [](std::int64_t n) {
    const Tensor values{"row", n, Dtype::float32};
    return FigureLine{fmt::format("{} columns in float32", n),
                      {values.bytes(), static_cast<double>(n) / registers, n / threads}};
  };
  return {25,
          "A row does not fill a block's registers",
          "One row fills a block's register budget.",
          fmt::format("A block may have all registers of an SM, {} bytes of them, and the book's "
                      "row takes a small share. A row as wide as the second would fill them.",
                      thousands(registers * size_of(Dtype::float32))),
          {"row",
           {{"size", Unit::bytes},
            {"share of registers", Unit::share},
            {fmt::format("registers a thread of {}", threads), Unit::count}},
           {row(defaults("rms_norm").n), row(registers)}}};
}

Erratum sizes_to_refuse() {
  const Arguments& a = defaults("norm_rope_quant");
  return {26, "Sizes that the ledger must refuse",
          "The ledger accepts an odd rd and rd > n, divides by zero at n = 0 and at rd = 0, and "
          "ends in an assertion at m = 0.",
          "Each is refused on one line of stderr, which names the flag, its value and what is "
          "allowed; exit code 2, nothing on stdout.",
          by_answer({{"--rope-dim", a.rope_dim - 1},
                     {"--rope-dim", a.n + 2},
                     {"--rope-dim", 0},
                     {"--n", 0},
                     {"--m", 0}})};
}

}  // namespace

std::vector<Erratum> errata() {
  return {scales_of_two_shapes(),
          kernel_is_not_the_ledgers(),
          fusing_does_not_save_q(),
          quant_kernel_checks_nothing(),
          layer_norm_statistics(),
          rms_norm_totals(),
          tables_belong_to_the_token(),
          range_is_fixed_text(),
          json_among_tables(),
          lower_bound_is_none(),
          rotation_copies_what_it_does_not_turn(),
          weights_by_call_or_by_block(),
          operations_left_out(),
          a_row_fills_no_registers(),
          sizes_to_refuse()};
}

}  // namespace opbook::ch13
