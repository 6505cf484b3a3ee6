#include "common/table.hpp"

#include <catch2/catch_test_macros.hpp>
#include <limits>

#include "common/error.hpp"

using namespace opbook;

namespace {
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();
}  // namespace

TEST_CASE("a table aligns its columns under a header and a rule", "[table]") {
  Table table({{"op", Align::left}, {"kernels"}, {"MB"}});
  table.add_row({"scale_add", "2", "20.97"}).add_row({"rope", "4", "369.10"});
  REQUIRE(table.render() ==
          "op         kernels      MB\n"
          "---------  -------  ------\n"
          "scale_add        2   20.97\n"
          "rope             4  369.10\n");
}

TEST_CASE("no line of a table ends in spaces", "[table]") {
  Table table({{"a", Align::left}, {"note", Align::left}});
  table.add_row({"1", "long text"}).add_row({"2", ""});
  REQUIRE(table.render() ==
          "a  note\n"
          "-  ---------\n"
          "1  long text\n"
          "2\n");
}

TEST_CASE("a character of several bytes is one column wide", "[table]") {
  Table table({{"t", Align::right}, {"x", Align::left}});
  table.add_row({"3 µs", "a"}).add_row({"12 ms", "b"});
  REQUIRE(table.render() ==
          "    t  x\n"
          "-----  -\n"
          " 3 µs  a\n"
          "12 ms  b\n");
}

TEST_CASE("a table without rows is its header, without columns two empty lines", "[table]") {
  REQUIRE(Table({{"op", Align::left}}).render() == "op\n--\n");
  REQUIRE(Table({}).render() == "\n\n");
}

TEST_CASE("a row with a cell too few or too many is refused", "[table]") {
  Table table({{"a"}, {"b"}});
  REQUIRE_THROWS_AS(table.add_row({"1"}), ArgumentError);
  REQUIRE_THROWS_AS(table.add_row({"1", "2", "3"}), ArgumentError);
  REQUIRE(table.render() == "a  b\n-  -\n");
}

TEST_CASE("fixed() rounds to the decimals asked for", "[table]") {
  REQUIRE(fixed(3.14159, 3) == "3.142");
  REQUIRE(fixed(2.0, 2) == "2.00");
  REQUIRE(fixed(1.005, 2) == "1.00");  // the double lies below 1.005
  REQUIRE(fixed(0.125, 2) == "0.12");  // a tie goes to even
  REQUIRE(fixed(1234.5, 0) == "1234");
  REQUIRE(fixed(-1.5, 1) == "-1.5");
  REQUIRE(fixed(1e20, 1) == "100000000000000000000.0");
}

TEST_CASE("fixed() writes no negative zero, and n/a for what is not finite", "[table]") {
  REQUIRE(fixed(-0.001, 2) == "0.00");
  REQUIRE(fixed(-0.0, 0) == "0");
  REQUIRE(fixed(-0.01, 2) == "-0.01");
  REQUIRE(fixed(nan, 2) == "n/a");
  REQUIRE(fixed(inf, 2) == "n/a");
  REQUIRE(fixed(-inf, 2) == "n/a");
}

TEST_CASE("thousands() groups digits by three", "[table]") {
  REQUIRE(thousands(0) == "0");
  REQUIRE(thousands(999) == "999");
  REQUIRE(thousands(1000) == "1,000");
  REQUIRE(thousands(-999) == "-999");
  REQUIRE(thousands(-123456) == "-123,456");
  REQUIRE(thousands(1234567) == "1,234,567");
  REQUIRE(thousands(std::numeric_limits<std::int64_t>::max()) == "9,223,372,036,854,775,807");
  REQUIRE(thousands(std::numeric_limits<std::int64_t>::min()) == "-9,223,372,036,854,775,808");
}

TEST_CASE("megabytes() are millions of bytes", "[table]") {
  REQUIRE(megabytes(0) == "0.00");
  REQUIRE(megabytes(20971520) == "20.97");
  REQUIRE(megabytes(1000000) == "1.00");
  REQUIRE(megabytes(4999) == "0.00");
  REQUIRE(megabytes(5001) == "0.01");
}

TEST_CASE("percent() shows a share of one", "[table]") {
  REQUIRE(percent(0.845) == "84.5 %");
  REQUIRE(percent(1.0, 0) == "100 %");
  REQUIRE(percent(0.0) == "0.0 %");
  REQUIRE(percent(nan) == "n/a");
}
