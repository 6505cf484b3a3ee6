#include "common/results.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/error.hpp"
#include "common/files.hpp"
#include "common/json_fields.hpp"

namespace opbook {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view devices[] = {"cpu", "cuda"};
constexpr std::string_view temperatures[] = {"cold", "hot"};

// One list of fields serves writer and reader.
template <class Info, class Visit>
void visit_machine(Info& info, Visit visit) {
  visit("name", info.name);
  visit("device", info.device);
  visit("cores", info.cores);
  visit("sms", info.sms);
  visit("memory_bytes", info.memory_bytes);
  visit("llc_bytes", info.llc_bytes);
  visit("driver", info.driver);
  visit("toolkit", info.toolkit);
  visit("clocks", info.clocks);
  visit("compiler", info.compiler);
  visit("commit", info.commit);
}

template <class Row, class Visit>
void visit_row(Row& row, Visit visit) {
  visit("op", row.op);
  visit("shape", row.shape);
  visit("dtype", row.dtype);
  visit("plan", row.plan);
  visit("device", row.device);
  visit("temperature", row.temperature);
  visit("bytes", row.bytes);
  visit("flops", row.flops);
  visit("median_us", row.median_us);
  visit("p25_us", row.p25_us);
  visit("p75_us", row.p75_us);
  visit("n", row.n);
  visit("gb_per_s", row.gb_per_s);
  visit("roof", row.roof);
  visit("share_of_roof", row.share_of_roof);
  visit("share_lo", row.share_lo);
  visit("share_hi", row.share_hi);
  visit("share_of_converting_copy", row.share_of_converting_copy);
  visit("share_of_converting_copy_lo", row.share_of_converting_copy_lo);
  visit("share_of_converting_copy_hi", row.share_of_converting_copy_hi);
  visit("worst_ulp", row.worst_ulp);
  visit("replay_shape", row.replay_shape);
  visit("replay_ledger_bytes", row.replay_ledger_bytes);
  visit("replay_read_bytes", row.replay_read_bytes);
  visit("replay_write_bytes", row.replay_write_bytes);
  visit("replay_flops", row.replay_flops);
  visit("refetched_bytes", row.refetched_bytes);
  visit("on_chip_bytes", row.on_chip_bytes);
  visit("cache_model_bytes", row.cache_model_bytes);
  visit("dram_bytes", row.dram_bytes);
  visit("dram_read_bytes", row.dram_read_bytes);
  visit("l2_bytes", row.l2_bytes);
  visit("counters_note", row.counters_note);
  visit("note", row.note);
  visit("adds", row.adds);
}

struct Writer {
  ordered_json& json;

  template <class T>
  void operator()(const char* field, const T& value) const {
    json[field] = value;
  }
  void operator()(const char* field, double value) const {
    json[field] = std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
  }
  template <class T>
  void operator()(const char* field, const std::optional<T>& value) const {
    if (value) (*this)(field, *value);
  }
};

struct Reader {
  const JsonFields& fields;

  void operator()(const char* field, std::string& value) const { value = fields.text(field); }
  void operator()(const char* field, std::int64_t& value) const { value = fields.whole(field); }
  void operator()(const char* field, double& value) const { value = fields.measured(field); }
  void operator()(const char* field, std::vector<std::int64_t>& value) const {
    value = fields.sizes(field);
  }
  template <class T>
  void operator()(const char* field, std::optional<T>& value) const {
    if (fields.has(field)) (*this)(field, value.emplace());
  }
};

}  // namespace

void write_results(const std::filesystem::path& path, const Results& results) {
  ordered_json document;
  document["schema"] = Results::schema;
  visit_machine(results.machine, Writer{document["machine"]});
  document["rows"] = ordered_json::array();
  for (const ResultRow& row : results.rows) {
    visit_row(row, Writer{document["rows"].emplace_back()});
  }
  write_file(path, {document.dump(1, ' ', false, ordered_json::error_handler_t::replace), "\n"});
}

Results read_results(const std::filesystem::path& path) {
  const nlohmann::json document = read_json(path);
  const JsonFields fields(document, path.string() + ": ");
  if (const std::int64_t schema = fields.whole("schema"); schema != Results::schema) {
    throw ArgumentError(path.string() + ": schema: got " + std::to_string(schema) +
                        "; allowed: " + std::to_string(Results::schema));
  }
  Results results;
  const JsonFields machine = fields.object("machine");
  visit_machine(results.machine, Reader{machine});
  machine.name("name");
  machine.name("device", devices);
  for (const JsonFields& row : fields.objects("rows")) {
    visit_row(results.rows.emplace_back(), Reader{row});
    for (const char* const field : {"op", "dtype", "plan", "roof"}) row.name(field);
    row.name("device", devices);
    row.name("temperature", temperatures);
  }
  return results;
}

}  // namespace opbook
