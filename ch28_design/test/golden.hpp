#pragma once

// The recorded figures, and how they compare.

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace opbook::ch28 {

inline nlohmann::ordered_json golden(const std::string& name) {
  std::ifstream file(std::string(OPBOOK_TEST_DIR) + "/golden/" + name);
  return nlohmann::ordered_json::parse(file);
}

/// `actual` has the fields of `recorded` and no others, in that order; numbers compare as numbers.
inline void check_same(const nlohmann::ordered_json& actual,
                       const nlohmann::ordered_json& recorded) {
  if (recorded.is_object()) {
    std::string names, recorded_names;
    for (const auto& [name, value] : actual.items()) names += name + " ";
    for (const auto& [name, value] : recorded.items()) recorded_names += name + " ";
    REQUIRE(names == recorded_names);
    for (const auto& [name, value] : recorded.items()) {
      INFO(name);
      check_same(actual.at(name), value);
    }
  } else if (recorded.is_array()) {
    REQUIRE(actual.size() == recorded.size());
    for (std::size_t i = 0; i < recorded.size(); ++i) check_same(actual[i], recorded[i]);
  } else {
    CHECK(actual == recorded);
  }
}

}  // namespace opbook::ch28
