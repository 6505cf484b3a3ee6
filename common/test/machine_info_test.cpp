#include "common/machine_info.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "common/test/temporary_folder.hpp"

using namespace opbook;

namespace {

void write_cache(const TemporaryFolder& root, int cpu, int index, const std::string& level,
                 const std::string& type, const std::string& size, const std::string& shared) {
  const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index" +
                             std::to_string(index) + "/";
  root.write(folder + "level", level + "\n");
  root.write(folder + "type", type + "\n");
  root.write(folder + "size", size + "\n");
  root.write(folder + "shared_cpu_list", shared + "\n");
}

}  // namespace

TEST_CASE("a machine's name becomes a name for files", "[machine_info]") {
  REQUIRE(machine_slug("NVIDIA H200") == "nvidia-h200");
  REQUIRE(machine_slug("AMD EPYC 7B13 64-Core Processor") == "amd-epyc-7b13-64-core-processor");
  REQUIRE(machine_slug("Intel(R) Xeon(R) CPU @ 2.20GHz") == "intel-xeon-cpu-2-20ghz");
  REQUIRE(machine_slug("13th Gen Intel(R) Core(TM) i7") == "13th-gen-intel-core-i7");
  REQUIRE(machine_slug("  ../../etc  ") == "etc");
  REQUIRE(machine_slug("") == "unknown");
  REQUIRE(machine_slug("(R) \xC3\xA9 /") == "unknown");
}

TEST_CASE("this machine's CPU has a name, a device, cores and memory", "[machine_info]") {
  const MachineInfo cpu = describe_cpu();
  REQUIRE_FALSE(cpu.name.empty());
  REQUIRE(cpu.device == "cpu");
  REQUIRE(cpu.cores >= 1);
  REQUIRE(cpu.sms == 0);
  REQUIRE(cpu.memory_bytes > 16 << 20);
  REQUIRE(cpu.llc_bytes >= 0);
  REQUIRE_FALSE(cpu.compiler.empty());
  REQUIRE(cpu.commit.find('\n') == cpu.commit.npos);
}

TEST_CASE("name, clock and memory come from the first processor's lines", "[machine_info]") {
  const TemporaryFolder root;
  root.write("proc/cpuinfo",
             "processor\t: 0\nmodel\t\t: 1\nmodel name\t: A  CPU \t7 \ncpu MHz\t\t: 2445.422\n\n"
             "processor\t: 1\nmodel name\t: Another\ncpu MHz\t\t: 800.0\n");
  root.write("proc/meminfo", "MemTotal:       1000 kB\nMemFree:        10 kB\n");
  const MachineInfo cpu = describe_cpu(root.path());
  REQUIRE(cpu.name == "A CPU 7");
  REQUIRE(cpu.clocks == "2445 MHz");
  REQUIRE(cpu.memory_bytes == 1024000);

  root.write("sys/fs/cgroup/memory.max", "max\n");
  REQUIRE(describe_cpu(root.path()).memory_bytes == 1024000);
  root.write("sys/fs/cgroup/memory.max", "500000\n");
  REQUIRE(describe_cpu(root.path()).memory_bytes == 500000);
  root.write("sys/fs/cgroup/memory.max", "9223372036854771712\n");
  REQUIRE(describe_cpu(root.path()).memory_bytes == 1024000);
}

TEST_CASE("last-level caches are summed, each counted once however many share it",
          "[machine_info]") {
  const TemporaryFolder root;
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string own = std::to_string(cpu);
    write_cache(root, cpu, 0, "1", "Data", "32K", own);
    write_cache(root, cpu, 1, "1", "Instruction", "32K", own);
    write_cache(root, cpu, 2, "2", "Unified", "512K", own);
    write_cache(root, cpu, 3, "3", "Unified", "16M", cpu < 2 ? "0-1" : "2-3");
  }
  REQUIRE(describe_cpu(root.path()).llc_bytes == 2 * (16 << 20));
}

TEST_CASE("where the last level is the second, that is the one counted", "[machine_info]") {
  const TemporaryFolder root;
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string own = std::to_string(cpu);
    write_cache(root, cpu, 0, "1", "Data", "64K", own);
    write_cache(root, cpu, 1, "2", "Unified", "1024K", "0-3");
    write_cache(root, cpu, 2, "3", "Instruction", "99M", own);
  }
  REQUIRE(describe_cpu(root.path()).llc_bytes == 1 << 20);
}

TEST_CASE("a machine that says nothing still has a name and a memory", "[machine_info]") {
  const TemporaryFolder root;
  const MachineInfo cpu = describe_cpu(root.path());
  REQUIRE_FALSE(cpu.name.empty());
  REQUIRE(cpu.clocks.empty());
  REQUIRE(cpu.memory_bytes > 0);
  REQUIRE(cpu.llc_bytes >= 0);
}
