#include "common/counters.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

using namespace opbook;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string header =
    R"("ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream",)"
    R"("Block Size","Grid Size","Device","CC","dram__bytes_read.sum","dram__bytes_write.sum",)"
    R"("lts__t_bytes.sum")"
    "\n";

std::string units(const std::string& unit) {
  std::string line;
  for (int i = 0; i < 11; ++i) line += "\"\",";
  return line + "\"" + unit + "\",\"" + unit + "\",\"" + unit + "\"\n";
}

std::string kernel(const std::string& name, const std::string& read, const std::string& written,
                   const std::string& l2) {
  return R"("0","77","ch13","127.0.0.1",")" + name +
         R"csv(","1","7","(256, 1, 1)","(4096, 1, 1)","0","9.0",")csv" + read + "\",\"" + written +
         "\",\"" + l2 + "\"\n";
}

const std::string plain_kernel = kernel("rms_norm", "33,554,432", "1,024", "67,117,056");

}  // namespace

TEST_CASE("counters of one kernel are read with their thousands separators") {
  const Counters counters = parse_ncu(header + units("byte") + plain_kernel);
  CHECK(counters.dram_read == 33554432);
  CHECK(counters.dram_written == 1024);
  CHECK(counters.l2 == 67117056);
  CHECK(counters.dram() == 33555456);
  CHECK(counters.note.empty());
}

TEST_CASE("counters are summed over the kernels of a plan") {
  const Counters counters =
      parse_ncu(header + units("byte") + plain_kernel + kernel("mean", "1,000", "0", "2000") +
                kernel("y", "10", "20", "30"));
  CHECK(counters.dram_read == 33555442);
  CHECK(counters.dram_written == 1044);
  CHECK(counters.l2 == 67119086);
}

TEST_CASE("what the program and ncu print around the table is passed over") {
  const Counters counters = parse_ncu(
      "==PROF== Connected to process 77 (/build/ch13)\n"
      "==PROF== Profiling \"rms_norm\" - 0: 0%....50%....100% - 1 pass\n"
      "\"quoted\" by the program\r\n"
      "rms_norm bfloat16 [4096, 4096]: ran the fused plan once\n"
      "==PROF== Disconnected from process 77\n" +
      header + units("byte") + plain_kernel);
  CHECK(counters.dram_read == 33554432);
  CHECK(counters.note.empty());
}

TEST_CASE("a kernel's name may hold commas and quotes") {
  const Counters counters = parse_ncu(header + units("byte") +
                                      kernel(R"(void norm<float, 4, (char)"
                                             "x"
                                             ">(T *))",
                                             "1", "2", "3"));
  CHECK(counters.dram_read == 1);
  CHECK(counters.dram_written == 2);
  CHECK(counters.l2 == 3);
}

TEST_CASE("units that ncu scales are scaled back") {
  CHECK(parse_ncu(header + units("Mbyte") + kernel("k", "33.55", "1,000", "0")).dram() ==
        1033550000);
  CHECK(parse_ncu(header + units("Kbyte") + kernel("k", "1.5", "0", "0")).dram_read == 1500);
  CHECK(parse_ncu(header + units("Gbyte") + kernel("k", "2", "0", "0")).dram_read == 2000000000);
}

TEST_CASE("a metric that was not counted for one kernel is empty for the plan") {
  const Counters counters =
      parse_ncu(header + units("byte") + plain_kernel + kernel("y", "n/a", "20", "30"));
  CHECK_FALSE(counters.dram_read);
  CHECK_FALSE(counters.dram());
  CHECK(counters.dram_written == 1044);
  CHECK(counters.note == "ncu did not count every metric");
}

TEST_CASE("an amount in a unit that is none of bytes is not counted") {
  CHECK_FALSE(parse_ncu(header + units("sector") + plain_kernel).dram_read);
  CHECK_FALSE(parse_ncu(header + units("byte") + kernel("k", "-1", "x", "")).dram_written);
}

TEST_CASE("missing permission is named") {
  const Counters counters = parse_ncu(
      "==PROF== Connected to process 77 (/build/ch13)\n"
      "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
      "Performance Counters on the target device 0.\n"
      "==PROF== Disconnected from process 77\n");
  CHECK_FALSE(counters.dram());
  CHECK_THAT(counters.note, ContainsSubstring("ERR_NVGPUCTRPERM"));
  CHECK(counters.note.find('\n') == std::string::npos);
}

TEST_CASE("any other failure of ncu is told by the last line that it printed") {
  const Counters failed = parse_ncu("==PROF== Connected\n==ERROR== LibraryNotLoaded\n\n");
  CHECK(failed.note == "ncu: ==ERROR== LibraryNotLoaded");
  CHECK(parse_ncu("==WARNING== No kernels were profiled.\n").note == "ncu saw no kernel");
  CHECK(parse_ncu("").note == "ncu printed nothing");
  CHECK(parse_ncu(header).note == "ncu did not count every metric");
}
