#include "common/npy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string_view>
#include <vector>

#include "common/checked.hpp"
#include "common/files.hpp"

namespace opbook {
namespace {

static_assert(std::endian::native == std::endian::little);

// The file: magic, version (major, minor), header length (2 bytes in format 1, else 4), header (a
// Python dictionary, padded with spaces up to a newline), data.
constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t data_alignment = 64;
constexpr std::int64_t longest_header = 1 << 20;

struct Spelling {
  std::string_view descr;
  Dtype dtype;
  bool bare;  // says the width only: taken where the caller names the dtype
};

// The first spelling of a dtype is the one that is written.
constexpr Spelling spellings[] = {
    {"<f4", Dtype::float32, false},       {"<f2", Dtype::float16, false},
    {"<V2", Dtype::bfloat16, false},      {"|V2", Dtype::bfloat16, false},
    {"<V1", Dtype::float8_e4m3fn, false}, {"|V1", Dtype::float8_e4m3fn, false},
    {"<i4", Dtype::int32, false},         {"<i8", Dtype::int64, false},
    {"<u2", Dtype::float16, true},        {"<u2", Dtype::bfloat16, true},
    {"|u1", Dtype::float8_e4m3fn, true},
};

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

// A file's text inside a message: short, and nothing that a terminal would act on.
std::string printable(std::string_view text) {
  std::string result(text.substr(0, 40));
  for (char& c : result) {
    if (c < ' ' || c > '~') c = '?';
  }
  return result;
}

// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } and nothing else: each key
// once, in any order, spaces anywhere. Throws ArgumentError with a text that lacks the file's name.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Header parse() {
    Header header;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !descr) {
        descr = true;
        if (next() == '[' || next() == '(') fail("got a structured dtype; allowed: plain numbers");
        header.descr = string();
      } else if (key == "fortran_order" && !order) {
        order = true;
        header.fortran_order = boolean();
      } else if (key == "shape" && !shape) {
        shape = true;
        header.shape = tuple();
      } else {
        fail(fmt::format("got header key '{}'; allowed: descr, fortran_order, shape, once each",
                         printable(key)));
      }
      if (!accept(',') && next() != '}') malformed();
    }
    if (next() != '\0' || at_ != text_.size()) malformed();
    if (!descr) fail("its header lacks 'descr'");
    if (!order) fail("its header lacks 'fortran_order'");
    if (!shape) fail("its header lacks 'shape'");
    return header;
  }

 private:
  [[noreturn]] static void fail(const std::string& why) { throw ArgumentError(why); }
  [[noreturn]] void malformed() const {
    fail(fmt::format("its header is malformed at byte {}: '{}'", at_, printable(text_)));
  }

  // The next character that is no space, not taken yet; '\0' at the end.
  char next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (next() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) malformed();
  }

  std::string string() {
    const char quote = next();
    if (quote != '\'' && quote != '"') malformed();
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) malformed();
    std::string result(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return result;
  }

  bool boolean() {
    next();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    }
    malformed();
  }

  // (), (3,), (2, 3) or (2, 3,); (3) is a number to Python and malformed here.
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> sizes;
    bool comma = true;
    expect('(');
    while (!accept(')')) {
      if (!comma) malformed();
      sizes.push_back(size());
      comma = accept(',');
    }
    if (sizes.size() == 1 && !comma) malformed();
    return sizes;
  }

  std::int64_t size() {
    next();
    std::int64_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range || value < 0) {
      fail(fmt::format("got size {} in its shape; allowed: 0 to 2^63 - 1",
                       printable({begin, static_cast<std::size_t>(end - begin)})));
    }
    if (error != std::errc()) malformed();
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

Dtype dtype_of_descr(const std::string& descr, std::optional<Dtype> as) {
  std::vector<std::string> allowed;
  for (const Spelling& spelling : spellings) {
    if (as ? spelling.dtype != *as : spelling.bare) continue;
    if (spelling.descr == descr) return spelling.dtype;
    allowed.push_back(fmt::format("{} ({})", spelling.descr, name_of(spelling.dtype)));
  }
  const char* const kind = descr.starts_with('>') ? "big-endian "
                           : descr.size() == 2 && descr.find('O') != std::string::npos ? "object "
                                                                                       : "";
  throw ArgumentError(fmt::format("got {}dtype {}; allowed{}: {}{}", kind, printable(descr),
                                  as ? fmt::format(" where {} is asked for", name_of(*as)) : "",
                                  fmt::join(allowed, ", "),
                                  as ? "" : "; and <u2, |u1 with --dtype"));
}

std::uint32_t little_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

Array load(const std::filesystem::path& path, std::int64_t size, std::string name,
           std::optional<Dtype> as) {
  std::ifstream file(path, std::ios::binary);
  std::int64_t at = 0;
  const auto read = [&](char* to, std::int64_t bytes) {
    if (!file.read(to, bytes)) throw ArgumentError("cannot be read");
    at += bytes;
  };
  const auto take = [&](std::int64_t bytes, std::string_view what) {
    if (bytes > size - at) {
      throw ArgumentError(
          fmt::format("its {} needs {} bytes, the file ends after {}", what, bytes, size - at));
    }
    std::string result(static_cast<std::size_t>(bytes), '\0');
    read(result.data(), bytes);
    return result;
  };

  if (size < std::ssize(magic) || take(std::ssize(magic), "magic") != magic) {
    throw ArgumentError("is no .npy file; allowed: what numpy.save writes");
  }
  const std::string version = take(2, "version");
  const int major = static_cast<unsigned char>(version[0]);
  const int minor = static_cast<unsigned char>(version[1]);
  if (major < 1 || major > 3 || minor != 0) {
    throw ArgumentError(
        fmt::format("got format version {}.{}; allowed: 1.0, 2.0, 3.0", major, minor));
  }
  const std::int64_t header_bytes = little_endian(take(major == 1 ? 2 : 4, "header length"));
  if (header_bytes > longest_header && header_bytes <= size - at) {
    throw ArgumentError(
        fmt::format("got a header of {} bytes; allowed: {}", header_bytes, longest_header));
  }
  const Header header = HeaderParser(take(header_bytes, "header")).parse();
  const Dtype dtype = dtype_of_descr(header.descr, as);
  if (header.fortran_order && header.shape.size() > 1) {
    throw ArgumentError(
        "got Fortran order; allowed: C order, as numpy.save(file, numpy.ascontiguousarray(x)) "
        "writes it");
  }

  std::int64_t data_bytes = size_of(dtype);
  for (const std::int64_t extent : header.shape) data_bytes = checked_mul({data_bytes, extent});
  if (data_bytes != size - at) {
    throw ArgumentError(fmt::format("its shape ({}) of {} needs {} bytes of data, the file has {}",
                                    fmt::join(header.shape, ", "), header.descr, data_bytes,
                                    size - at));
  }
  Array array(std::move(name), dtype, header.shape);
  read(reinterpret_cast<char*>(array.raw()), data_bytes);
  return array;
}

}  // namespace

Array load_npy(const std::filesystem::path& path, std::string name, std::optional<Dtype> as) {
  const std::int64_t size = bytes_of_file(path);
  try {
    return load(path, size, std::move(name), as);
  } catch (const ArgumentError& error) {
    throw ArgumentError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

void save_npy(const std::filesystem::path& path, const Array& array) {
  std::string_view descr;
  for (const Spelling& spelling : spellings) {
    if (spelling.dtype == array.dtype() && descr.empty()) descr = spelling.descr;
  }
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr,
                  fmt::join(array.shape(), ", "), array.shape().size() == 1 ? "," : "");
  const std::size_t prelude = magic.size() + 4;
  const std::size_t unpadded = prelude + header.size() + 1;
  header.append((data_alignment - unpadded % data_alignment) % data_alignment, ' ');
  header += '\n';
  if (header.size() > 0xFFFF) {
    throw ArgumentError(
        fmt::format("{}: got {} dimensions; allowed: what a header of 65535 bytes "
                    "holds",
                    path.string(), array.shape().size()));
  }
  const char preamble[] = {1, 0, static_cast<char>(header.size() & 0xFF),
                           static_cast<char>(header.size() >> 8)};
  write_file(path, {magic,
                    {preamble, sizeof preamble},
                    header,
                    {reinterpret_cast<const char*>(array.raw()),
                     static_cast<std::size_t>(array.bytes())}});
}

}  // namespace opbook
