#include "ch28_design/time_model.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include "ch28_design/test/results_on_h200.hpp"

namespace opbook::ch28 {
namespace {

using Catch::Matchers::WithinRel;

Machine h200() {
  return load_machine("h200");
}

}  // namespace

TEST_CASE("time is overhead and the longer of DRAM's bytes and the waves", "[time_model]") {
  const Arguments a = arguments_on(h200(), 4096);
  const TimeModel model{5, 4000, {1, 1, 1, 1}, {}};
  const Prediction of_a = predict(model, a, Design::A, h200());
  CHECK(of_a.dram_bytes == 65667584);  // the L2 keeps what A reads again
  CHECK_THAT(of_a.dram_us, WithinRel(65667584 / 4e6, 1e-12));
  CHECK_THAT(of_a.waves_us, WithinRel(163840 / (132.0 * 32), 1e-12));
  CHECK(of_a.time_us == 5 + of_a.waves_us);
  const Prediction of_c = predict(model, a, Design::C, h200());
  CHECK_THAT(of_c.waves_us, WithinRel(4096 / (132.0 * 6), 1e-12));
  CHECK(of_c.time_us == 5 + of_c.dram_us);
}

TEST_CASE("without an L2 that holds them re-reads are DRAM's", "[time_model]") {
  Machine machine = h200();
  machine.l2_bytes = 100'000;
  const Arguments a = arguments_on(machine, 4096);
  CHECK(predict(unfitted_model(a), a, Design::A, machine).dram_bytes == 189399040);
}

TEST_CASE("an unfitted model has the machine's rate for the mix", "[time_model]") {
  Machine machine = h200();
  CHECK(mix_name(machine) == "peak");
  CHECK(arguments_on(machine, 1).bandwidth_gbs == 4800);
  machine.bandwidth_gbs["copy"] = 4200;
  CHECK(mix_bandwidth_gbs(machine) == 4200);
  machine.bandwidth_gbs["triad"] = 4000;
  CHECK(mix_bandwidth_gbs(machine) == 4000);
  machine.bandwidth_gbs["mix_2_1"] = 4100;
  CHECK(mix_bandwidth_gbs(machine) == 4100);
  const Arguments a = arguments_on(machine, 1);
  CHECK(unfitted_model(a).rate_gbs == 4100);
  CHECK(unfitted_model(a).fitted_tokens.empty());
}

TEST_CASE("a machine that behaves as the model has its figures found", "[time_model]") {
  TimeModel truth = made_up_model();
  truth.wave_us = {2, 9, 9, 9};  // waves limit every design, so that they can be found
  const Results results = results_of(truth, {1024, 8192, 16384});
  const auto model = fitted_model(design_rows(results), h200());
  REQUIRE(model);
  CHECK_THAT(model->overhead_us, WithinRel(truth.overhead_us, 1e-9));
  CHECK_THAT(model->rate_gbs, WithinRel(truth.rate_gbs, 1e-9));
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK_THAT(model->wave_us[i], WithinRel(truth.wave_us[i], 1e-9));
  }
  CHECK(model->fitted_tokens == std::vector<std::int64_t>{1024, 8192, 16384});
}

TEST_CASE("nothing is ever fitted to what is predicted, nor to tiny sizes", "[time_model]") {
  const Machine machine = h200();
  Results results = results_of(made_up_model(), {1, 8, 256, 1024, 4096, 8192, 16384, 32768});
  const auto before = fitted_model(design_rows(results), machine);
  for (ResultRow& row : results.rows) {
    const std::int64_t tokens = row.shape.front();
    if (tokens == 4096 || tokens == 32768 || tokens < 1024) row.median_us *= 7;
  }
  const auto after = fitted_model(design_rows(results), machine);
  REQUIRE((before && after));
  CHECK(before->overhead_us == after->overhead_us);
  CHECK(before->rate_gbs == after->rate_gbs);
  CHECK(before->wave_us == after->wave_us);
  CHECK_FALSE(fitted_model(design_rows(results_of(made_up_model(), {4096, 8192, 32768})), machine));
}

TEST_CASE("rows of other operators, plans, heads, widths and dtypes are no design's",
          "[time_model]") {
  Results results = results_of(made_up_model(), {4096});
  CHECK(design_rows(results).size() == 4);
  results.rows[0].op = "rms_norm";
  results.rows[1].plan = "unfused";
  results.rows[2].shape = {4096, 32, 128};
  results.rows[3].dtype = "float16";
  CHECK(design_rows(results).empty());
}

}  // namespace opbook::ch28
