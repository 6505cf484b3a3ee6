#include "common/npy.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "common/files.hpp"
#include "common/random.hpp"
#include "common/test/temporary_folder.hpp"

using namespace opbook;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;
using Catch::Matchers::MessageMatches;

namespace {

const std::string magic = "\x93NUMPY";

// A file by hand: version 1 has two bytes of header length, 2 and 3 four; `claimed` lies about it.
std::string npy(const std::string& header, const std::string& data, int version = 1,
                long long claimed = -1) {
  const auto length = static_cast<unsigned long long>(
      claimed < 0 ? static_cast<long long>(header.size()) : claimed);
  std::string file = magic + static_cast<char>(version) + '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) file += static_cast<char>(length >> (8 * i));
  return file + header + data;
}

std::string header(const std::string& descr, const std::string& shape,
                   const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

std::string zeros(std::size_t bytes) {
  return std::string(bytes, '\0');
}

// The message that loading such a file ends in, without the folder; "" where it loads.
std::string refusal(const std::string& content, std::optional<Dtype> as = std::nullopt) {
  const TemporaryFolder folder;
  try {
    load_npy(folder.write("f.npy", content), "x", as);
  } catch (const ArgumentError& error) {
    const std::string prefix = (folder.path() / "f.npy: ").string();
    const std::string message = error.what();
    REQUIRE(message.starts_with(prefix));
    REQUIRE(message.find('\n') == message.npos);
    return message.substr(prefix.size());
  }
  return "";
}

}  // namespace

TEST_CASE("each dtype and rank survives a round trip bit for bit", "[npy]") {
  const TemporaryFolder folder;
  const std::vector<std::vector<std::int64_t>> shapes = {{},     {0},       {7},
                                                         {3, 5}, {2, 0, 4}, {2, 3, 4, 5}};
  for (const Dtype dtype : {Dtype::float32, Dtype::float16, Dtype::bfloat16, Dtype::float8_e4m3fn,
                            Dtype::int32, Dtype::int64}) {
    for (const auto& shape : shapes) {
      for (const std::int64_t offset : {0, 1}) {
        Array saved("x", dtype, shape, offset);
        for (std::int64_t i = 0; i < saved.bytes(); ++i) {
          saved.raw()[i] =
              static_cast<std::byte>(random_bits(1, "bytes", static_cast<std::uint64_t>(i)));
        }
        const auto path = folder.path() / "sub folder" / "x.npy";
        save_npy(path, saved);
        REQUIRE(bytes_of_file(path) % 64 == saved.bytes() % 64);
        for (const std::optional<Dtype> as :
             {std::optional<Dtype>(), std::optional<Dtype>(dtype)}) {
          const Array loaded = load_npy(path, "y", as);
          REQUIRE(loaded.name() == "y");
          REQUIRE(loaded.dtype() == dtype);
          REQUIRE(loaded.shape() == shape);
          REQUIRE(std::memcmp(loaded.raw(), saved.raw(), static_cast<std::size_t>(saved.bytes())) ==
                  0);
          REQUIRE(loaded.guards_intact());
        }
      }
    }
  }
  REQUIRE(folder.files() == 1);
}

TEST_CASE("a saved file is, byte for byte, what numpy writes", "[npy]") {
  const TemporaryFolder folder;
  Array x("x", Dtype::bfloat16, {2, 3});
  for (int i = 0; i < 6; ++i) x.data<bfloat16>()[i] = {static_cast<std::uint16_t>(0x3F80 + i)};
  save_npy(folder.path() / "x.npy", x);
  const std::string dictionary = "{'descr': '<V2', 'fortran_order': False, 'shape': (2, 3), }";
  REQUIRE(read_file(folder.path() / "x.npy") ==
          magic + std::string("\x01\0v\0", 4) + dictionary +
              std::string(117 - dictionary.size(), ' ') + "\n" +
              "\x80\x3F\x81\x3F\x82\x3F\x83\x3F\x84\x3F\x85\x3F");

  save_npy(folder.path() / "v.npy", Array("v", Dtype::float8_e4m3fn, {5}));
  REQUIRE_THAT(read_file(folder.path() / "v.npy"),
               ContainsSubstring("{'descr': '<V1', 'fortran_order': False, 'shape': (5,), }"));
  save_npy(folder.path() / "s.npy", Array("s", Dtype::int64, {}));
  REQUIRE_THAT(read_file(folder.path() / "s.npy"),
               ContainsSubstring("{'descr': '<i8', 'fortran_order': False, 'shape': (), }"));
}

TEST_CASE("values arrive in order, in each format version", "[npy]") {
  const TemporaryFolder folder;
  const float values[] = {1.5f, -2.0f, 0.25f, 3.0f, 1e-30f, -0.0f};
  const std::string data(reinterpret_cast<const char*>(values), sizeof values);
  for (const int version : {1, 2, 3}) {
    const auto path = folder.write("x.npy", npy(header("<f4", "(2, 3)"), data, version));
    const Array x = load_npy(path, "x");
    REQUIRE(x.shape() == std::vector<std::int64_t>{2, 3});
    for (int i = 0; i < 6; ++i) REQUIRE(x.data<float>()[i] == values[i]);
  }
}

TEST_CASE("a header may order, space and quote its three keys as Python does", "[npy]") {
  for (const char* const good : {
           "{\"shape\":(2,),\"descr\":\"<f4\",\"fortran_order\":False}",
           "  { 'fortran_order' : False , 'shape' : ( 2 , ) , 'descr' : '<f4' }   \n",
           "{'descr': '<f4', 'fortran_order': True, 'shape': (2,)}",  // one order in one dimension
       }) {
    INFO(good);
    REQUIRE(refusal(npy(good, zeros(8))) == "");
  }
}

TEST_CASE("bare bits need the caller to name their dtype", "[npy]") {
  REQUIRE(refusal(npy(header("<u2", "(2,)"), zeros(4)), Dtype::bfloat16) == "");
  REQUIRE(refusal(npy(header("<u2", "(2,)"), zeros(4)), Dtype::float16) == "");
  REQUIRE(refusal(npy(header("|u1", "(4,)"), zeros(4)), Dtype::float8_e4m3fn) == "");
  REQUIRE(refusal(npy(header("|V2", "(2,)"), zeros(4))) == "");
  REQUIRE(refusal(npy(header("|V1", "(4,)"), zeros(4))) == "");
  REQUIRE_THAT(refusal(npy(header("<u2", "(2,)"), zeros(4))),
               ContainsSubstring("got dtype <u2; allowed: <f4 (float32)") &&
                   ContainsSubstring("; and <u2, |u1 with --dtype"));
  REQUIRE_THAT(refusal(npy(header("|u1", "(4,)"), zeros(4))), ContainsSubstring("got dtype |u1"));
  REQUIRE_THAT(refusal(npy(header("|u1", "(4,)"), zeros(4)), Dtype::float32),
               ContainsSubstring("got dtype |u1"));
}

TEST_CASE("another dtype than the one asked for is refused, never converted", "[npy]") {
  REQUIRE_THAT(refusal(npy(header("<f4", "(2,)"), zeros(8)), Dtype::bfloat16),
               Equals("got dtype <f4; allowed where bfloat16 is asked for: <V2 (bfloat16), "
                      "|V2 (bfloat16), <u2 (bfloat16)"));
  REQUIRE_THAT(refusal(npy(header("<V2", "(2,)"), zeros(4)), Dtype::float16),
               ContainsSubstring("got dtype <V2; allowed where float16 is asked for: <f2"));
  REQUIRE_THAT(refusal(npy(header("<i4", "(2,)"), zeros(8)), Dtype::float32),
               ContainsSubstring("got dtype <i4"));
}

TEST_CASE("dtypes that have no place here are refused by name", "[npy]") {
  REQUIRE_THAT(refusal(npy(header("<f8", "(1,)"), zeros(8))), ContainsSubstring("got dtype <f8"));
  REQUIRE_THAT(refusal(npy(header(">f4", "(1,)"), zeros(4))),
               ContainsSubstring("got big-endian dtype >f4"));
  REQUIRE_THAT(refusal(npy(header("|O", "(1,)"), "\x80\x04K\x01.")),
               ContainsSubstring("got object dtype |O"));
  REQUIRE_THAT(
      refusal(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", zeros(4))),
      ContainsSubstring("got a structured dtype"));
  REQUIRE_THAT(refusal(npy(header("", "(1,)"), zeros(4))), ContainsSubstring("got dtype ;"));
  // What a terminal would act on does not reach it.
  REQUIRE_THAT(refusal(npy(header("\x1b[2J\n<f4", "(1,)"), zeros(4))),
               ContainsSubstring("got dtype ?[2J?<f4"));
}

TEST_CASE("Fortran order of more than one dimension is refused", "[npy]") {
  REQUIRE_THAT(refusal(npy(header("<f4", "(2, 3)", "True"), zeros(24))),
               ContainsSubstring("got Fortran order; allowed: C order"));
  REQUIRE(refusal(npy(header("<f4", "()", "True"), zeros(4))) == "");
}

TEST_CASE("a .npy file truncated at any byte is refused, and so is one byte too many", "[npy]") {
  for (const int version : {1, 2}) {
    const std::string whole = npy(header("<f4", "(2, 2)"), zeros(16), version);
    REQUIRE(refusal(whole) == "");
    for (std::size_t size = 0; size < whole.size(); ++size) {
      INFO(size << " of " << whole.size() << " bytes");
      REQUIRE(refusal(whole.substr(0, size)) != "");
    }
    REQUIRE_THAT(refusal(whole.substr(0, whole.size() - 1)),
                 Equals("its shape (2, 2) of <f4 needs 16 bytes of data, the file has 15"));
    REQUIRE_THAT(refusal(whole + '\0'),
                 Equals("its shape (2, 2) of <f4 needs 16 bytes of data, the file has 17"));
  }
}

TEST_CASE("what is no .npy file, or of an unknown version, is refused", "[npy]") {
  REQUIRE_THAT(refusal(""), ContainsSubstring("is no .npy file"));
  REQUIRE_THAT(refusal("PK\x03\x04 an archive, say"), ContainsSubstring("is no .npy file"));
  REQUIRE_THAT(refusal(npy(header("<f4", "()"), zeros(4), 4)),
               ContainsSubstring("got format version 4.0; allowed: 1.0, 2.0, 3.0"));
  REQUIRE_THAT(refusal(npy(header("<f4", "()"), zeros(4), 0)), ContainsSubstring("version 0.0"));
}

TEST_CASE("a header length that lies is refused", "[npy]") {
  const std::string good = header("<f4", "(1,)");
  REQUIRE_THAT(refusal(npy(good, zeros(4), 1, 65535)),
               ContainsSubstring("its header needs 65535 bytes, the file ends after"));
  REQUIRE_THAT(refusal(npy(good, zeros(4), 2, 0xFFFFFFFFll)),
               ContainsSubstring("its header needs 4294967295 bytes"));
  REQUIRE_THAT(refusal(npy(good, zeros(4), 1, 0)), ContainsSubstring("its header is malformed"));
  REQUIRE(refusal(npy(good, zeros(4), 1, 20)) != "");
  REQUIRE(refusal(npy(good, zeros(4), 1, static_cast<long long>(good.size()) + 4)) != "");
  REQUIRE_THAT(refusal(npy(good + std::string(2 << 20, ' '), zeros(4), 2)),
               ContainsSubstring("got a header of"));
}

TEST_CASE("a shape that lies, is negative or overflows is refused", "[npy]") {
  const auto shape = [](const std::string& text) {
    return refusal(npy(header("<f4", text), zeros(16)));
  };
  REQUIRE(shape("(4,)") == "");
  REQUIRE_THAT(shape("(5,)"), ContainsSubstring("needs 20 bytes of data, the file has 16"));
  REQUIRE_THAT(shape("(0, 4)"), ContainsSubstring("needs 0 bytes of data"));
  REQUIRE_THAT(shape("()"), ContainsSubstring("needs 4 bytes of data"));
  REQUIRE_THAT(shape("(-4,)"), ContainsSubstring("got size -4 in its shape"));
  REQUIRE_THAT(shape("(-2, -2)"), ContainsSubstring("got size -2 in its shape"));
  REQUIRE_THAT(shape("(9223372036854775808,)"), ContainsSubstring("got size 9223372036854775808"));
  REQUIRE_THAT(shape("(9223372036854775807,)"), ContainsSubstring("passes 2^63 - 1"));
  // 2^62 * 4 bytes * 4 wraps to 0 in 64 bits, 2^32 * 2^32 + 4 elements to 16 bytes.
  REQUIRE_THAT(shape("(4611686018427387904, 4)"), ContainsSubstring("passes 2^63 - 1"));
  REQUIRE_THAT(shape("(4294967296, 4294967296)"), ContainsSubstring("passes 2^63 - 1"));
  REQUIRE(shape("(4611686018427387904, 4611686018427387904, 0)") != "");
}

TEST_CASE("a header that is not the three keys of a Python dictionary is refused", "[npy]") {
  for (const char* const bad : {
           "",
           "{}",
           "{",
           "}",
           "'descr'",
           "{'descr': '<f4', 'fortran_order': False}",
           "{'descr': '<f4', 'shape': (1,)}",
           "{'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
           "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4',, 'fortran_order': False, 'shape': (1,)}",
           "{'descr' '<f4', 'fortran_order': False, 'shape': (1,)}",
           "{'descr': <f4, 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4\", 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': Falsey, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': [1]}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1 1)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1.0,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (0x1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': ('1',)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}}",
       }) {
    INFO(bad);
    REQUIRE(refusal(npy(bad, zeros(4))) != "");
  }
  REQUIRE(refusal(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}" + zeros(1),
                      zeros(4))) != "");
  REQUIRE_THAT(refusal(npy("{'descr': '<f4', 'fortran_order': False}", zeros(4))),
               Equals("its header lacks 'shape'"));
}

TEST_CASE("a missing .npy file and a folder in its place are refused", "[npy]") {
  const TemporaryFolder folder;
  REQUIRE_THROWS_MATCHES(load_npy(folder.path() / "none.npy", "x"), ArgumentError,
                         MessageMatches(ContainsSubstring("none.npy: no such file")));
  REQUIRE_THROWS_MATCHES(load_npy(folder.path(), "x"), ArgumentError,
                         MessageMatches(ContainsSubstring("is a folder")));
}

TEST_CASE("an array that cannot be saved leaves nothing half-written", "[npy]") {
  const TemporaryFolder folder;
  const Array x("x", Dtype::float32, {2});
  REQUIRE_THROWS_AS(save_npy(folder.path(), x), ArgumentError);
  REQUIRE_THROWS_AS(save_npy(folder.write("file", "") / "x.npy", x), ArgumentError);
  const Array many("x", Dtype::float32, std::vector<std::int64_t>(30000, 1));
  REQUIRE_THROWS_MATCHES(save_npy(folder.path() / "many.npy", many), ArgumentError,
                         MessageMatches(ContainsSubstring("got 30000 dimensions")));
  REQUIRE(folder.files() == 1);
}
