#pragma once

// Checked reading of JSON files: every error names the file and the field.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace opbook {

/// Parses a file; throws ArgumentError, naming it and the place, where it cannot be read or is not
/// JSON.
nlohmann::json read_json(const std::filesystem::path& path);

/// A view of one JSON object, which must outlive it. Each reader throws ArgumentError where the
/// field is missing or not what the reader's name says; fields that nobody asks for are tolerated.
class JsonFields {
 public:
  /// `where` precedes the field in messages: "FILE: " or "FILE: rows[3].". Throws ArgumentError
  /// where the value is no object.
  JsonFields(const nlohmann::json& object, std::string where);

  bool has(const std::string& field) const;
  std::vector<std::string> names() const;

  std::string text(const std::string& field) const;
  /// One of the allowed texts or, where none is listed, any that is not empty.
  std::string name(const std::string& field, std::span<const std::string_view> allowed = {}) const;
  std::int64_t whole(const std::string& field, std::int64_t lowest = 0) const;
  double positive(const std::string& field) const;  ///< finite, above zero
  double measured(const std::string& field) const;  ///< finite, zero or above; null reads as NaN
  std::vector<std::int64_t> sizes(const std::string& field) const;  ///< whole, zero or above
  JsonFields object(const std::string& field) const;
  std::vector<JsonFields> objects(const std::string& field) const;

 private:
  const nlohmann::json& at(const std::string& field) const;
  [[noreturn]] void refuse(const std::string& field, const nlohmann::json& got,
                           std::string_view allowed) const;

  const nlohmann::json* object_;
  std::string where_;
};

}  // namespace opbook
