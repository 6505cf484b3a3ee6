#include "common/json_fields.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/error.hpp"
#include "common/files.hpp"

namespace opbook {
namespace {

using nlohmann::json;

// A value inside a message: on one line, in ASCII, short.
std::string shown(const json& value) {
  if (value.is_structured()) return fmt::format("an {}", value.type_name());
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() <= 60 ? text : text.substr(0, 60) + "...";
}

// The parser keeps whole numbers from zero up as unsigned.
bool is_whole(const json& value, std::int64_t lowest) {
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return value.is_number_unsigned() && value.get<std::uint64_t>() <= largest &&
         value.get<std::int64_t>() >= lowest;
}

double number_or_nan(const json& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

json read_json(const std::filesystem::path& path) {
  const std::string content = read_file(path);
  try {
    return json::parse(content);
  } catch (const json::exception& error) {
    // Such a text begins with "[json.exception.parse_error.101] ", which says nothing to a reader.
    const std::string_view what = error.what();
    const std::size_t id_end = what.find("] ");
    throw ArgumentError(fmt::format("{}: is not JSON: {}", path.string(),
                                    id_end == what.npos ? what : what.substr(id_end + 2)));
  }
}

JsonFields::JsonFields(const json& object, std::string where)
    : object_(&object), where_(std::move(where)) {
  if (!object.is_object()) {
    throw ArgumentError(fmt::format("{}got {}; allowed: an object", where_, shown(object)));
  }
}

bool JsonFields::has(const std::string& field) const {
  return object_->contains(field);
}

std::vector<std::string> JsonFields::names() const {
  std::vector<std::string> names;
  for (const auto& item : object_->items()) names.push_back(item.key());
  return names;
}

std::string JsonFields::text(const std::string& field) const {
  const json& value = at(field);
  if (!value.is_string()) refuse(field, value, "a text");
  return value.get<std::string>();
}

std::string JsonFields::name(const std::string& field,
                             std::span<const std::string_view> allowed) const {
  const std::string value = text(field);
  if (allowed.empty()) {
    if (value.empty()) refuse(field, value, "a text that is not empty");
  } else if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
    refuse(field, value, fmt::format("{}", fmt::join(allowed, ", ")));
  }
  return value;
}

std::int64_t JsonFields::whole(const std::string& field, std::int64_t lowest) const {
  const json& value = at(field);
  if (!is_whole(value, lowest)) {
    refuse(field, value, fmt::format("a whole number from {} to 2^63 - 1", lowest));
  }
  return value.get<std::int64_t>();
}

double JsonFields::positive(const std::string& field) const {
  const json& value = at(field);
  const double number = number_or_nan(value);
  if (!(number > 0 && std::isnormal(number))) refuse(field, value, "a number above zero");
  return number;
}

double JsonFields::measured(const std::string& field) const {
  const json& value = at(field);
  const double number = number_or_nan(value);
  if (!value.is_null() && !(number >= 0 && std::isfinite(number))) {
    refuse(field, value, "a number, zero or above, or null");
  }
  return number;
}

std::vector<std::int64_t> JsonFields::sizes(const std::string& field) const {
  const json& array = at(field);
  const auto is_size = [](const json& value) { return is_whole(value, 0); };
  if (!array.is_array() || !std::all_of(array.begin(), array.end(), is_size)) {
    refuse(field, array, "an array of whole numbers from 0 to 2^63 - 1");
  }
  return array.get<std::vector<std::int64_t>>();
}

JsonFields JsonFields::object(const std::string& field) const {
  const json& value = at(field);
  if (!value.is_object()) refuse(field, value, "an object");
  return JsonFields(value, fmt::format("{}{}.", where_, field));
}

std::vector<JsonFields> JsonFields::objects(const std::string& field) const {
  const json& array = at(field);
  if (!array.is_array()) refuse(field, array, "an array of objects");
  std::vector<JsonFields> objects;
  for (std::size_t i = 0; i < array.size(); ++i) {
    if (!array[i].is_object()) refuse(fmt::format("{}[{}]", field, i), array[i], "an object");
    objects.emplace_back(array[i], fmt::format("{}{}[{}].", where_, field, i));
  }
  return objects;
}

const json& JsonFields::at(const std::string& field) const {
  const auto found = object_->find(field);
  if (found == object_->end()) throw ArgumentError(fmt::format("{}{}: missing", where_, field));
  return *found;
}

void JsonFields::refuse(const std::string& field, const json& got, std::string_view allowed) const {
  throw ArgumentError(fmt::format("{}{}: got {}; allowed: {}", where_, field, shown(got), allowed));
}

}  // namespace opbook
