#include "common/cli.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/error.hpp"

namespace opbook {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

/// `show` prints the flags it was given; `fail` throws what --how names.
std::vector<Subcommand> subcommands() {
  const auto show = [](const GivenFlags& given) {
    std::string text;
    for (const auto& [flag, value] : given) text += flag + "=" + value + ";";
    return Outcome{0, text, ""};
  };
  const auto fail = [](const GivenFlags& given) -> Outcome {
    const std::string how = value_or(given, "--how", "quietly");
    if (how == "argument") throw ArgumentError("m: got 0");
    if (how == "device") throw DeviceUnavailable("cuda: none here");
    if (how == "check") throw CheckFailed("y: wrong");
    if (how == "other") throw std::runtime_error("first line\nsecond\tline");
    return {1, "all that was found\n", ""};
  };
  return {{"show", "prints its flags", {{"--m", "N", "rows"}, {"--json", "", "JSON"}}, show},
          {"hold",
           "prints its files",
           {{"MINE", "FILE", "one"}, {"OTHER", "FILE", "another"}, {"--m", "N", "rows"}},
           show},
          {"fail", "goes wrong", {{"--how", "KIND", "what to throw"}}, fail},
          {"gather",
           "prints what a flag gathers",
           {{"--from", "FILE", "one of several", true}, {"--m", "N", "rows"}},
           [](const GivenFlags& given) {
             std::string text;
             for (const std::string& one : texts_of(given, "--from")) text += "<" + one + ">";
             return Outcome{0, text, ""};
           }}};
}

Outcome run(const std::vector<std::string>& arguments) {
  return run_subcommand("prog", "A program.", subcommands(), arguments);
}

/// Sends a file descriptor elsewhere for as long as it lives.
class Redirected {
 public:
  Redirected(int descriptor, int target) : descriptor_(descriptor), saved_(dup(descriptor)) {
    dup2(target, descriptor);
  }
  ~Redirected() {
    dup2(saved_, descriptor_);
    close(saved_);
  }
  Redirected(const Redirected&) = delete;

 private:
  int descriptor_;
  int saved_;
};

std::string text_of(std::FILE* file) {
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  return text;
}

/// run_program() with its stdout sent to `out`; what it said on stderr goes to `err`.
int run_printed(std::vector<std::string> arguments, int out, std::string& err) {
  arguments.insert(arguments.begin(), "prog");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  std::FILE* const err_file = std::tmpfile();
  std::fflush(stdout);
  int exit_code;
  {
    const Redirected to_out(STDOUT_FILENO, out);
    const Redirected to_err(STDERR_FILENO, fileno(err_file));
    exit_code = run_program(static_cast<int>(argv.size()), argv.data(), "prog", "A program.",
                            subcommands());
  }
  err = text_of(err_file);
  std::fclose(err_file);
  return exit_code;
}

}  // namespace

TEST_CASE("a subcommand gets the flags that were given, as text", "[cli]") {
  CHECK(run({"show"}).out == "");
  CHECK(run({"show", "--m", "5", "--json"}).out == "--json=;--m=5;");
  CHECK(run({"show", "--json", "--m=5"}).out == "--json=;--m=5;");
}

TEST_CASE("a value is kept to the letter", "[cli]") {
  const std::string value =
      GENERATE(as<std::string>(), "", " 5", "5 ", "-3", "+5", "a=b", "[1,2]", "{}", "1,2", "show");
  CHECK(run({"show", "--m", value}).out == "--m=" + value + ";");
  CHECK(run({"show", "--m=" + value}).out == "--m=" + value + ";");
}

TEST_CASE("arguments that stand by themselves are taken in order, flags anywhere", "[cli]") {
  CHECK(run({"hold"}).out == "");
  CHECK(run({"hold", "a"}).out == "MINE=a;");
  CHECK(run({"hold", "a", "b"}).out == "MINE=a;OTHER=b;");
  CHECK(run({"hold", "--m", "5", "a", "b"}).out == "--m=5;MINE=a;OTHER=b;");
  CHECK(run({"hold", "a", "--m=5", "b"}).out == "--m=5;MINE=a;OTHER=b;");
  CHECK(run({"hold", "a", "b", "--m", "-1"}).out == "--m=-1;MINE=a;OTHER=b;");
}

TEST_CASE("a flag that repeats has all its texts, in order", "[cli]") {
  CHECK(run({"gather"}).out.empty());
  CHECK(run({"gather", "--from", "a"}).out == "<a>");
  CHECK(run({"gather", "--from", "b", "--m", "4", "--from=a", "--from", ""}).out == "<b><a><>");
  CHECK(run({"gather", "--from", ""}).out == "<>");
  CHECK(run({"gather", "--from", "a", "b"}).exit_code == 2);
  CHECK(run({"gather", "--m", "4", "--m", "4"}).exit_code == 2);
  CHECK(run({"gather", "--from"}).exit_code == 2);
  CHECK(run({"gather", "--from", "--m", "4"}).exit_code == 2);
}

TEST_CASE("an argument that stands by itself is kept to the letter", "[cli]") {
  const std::string value = GENERATE(as<std::string>(), "", " a", "a b", "x=y", "[1,2]", "a,b",
                                     "MINE", "OTHER", "m", "./--m", "\xC3\xA9.json");
  CHECK(run({"hold", value}).out == "MINE=" + value + ";");
  CHECK(run({"hold", "a", value}).out == "MINE=a;OTHER=" + value + ";");
}

TEST_CASE("a command line that does not add up has exit code 2 and one line on stderr", "[cli]") {
  struct Bad {
    std::vector<std::string> arguments;
    std::string named;  // what the line must name
  };
  const Bad bad = GENERATE(values<Bad>({
      {{}, "allowed: show, hold, fail"},
      {{""}, "got \"\""},
      {{"shout"}, "got \"shout\"; allowed: show, hold, fail"},
      {{"--json", "show"}, "got \"--json\""},
      {{"show", "--rows", "5"}, "got \"--rows\"; allowed: --m, --json"},
      {{"show", "-m", "5"}, "got \"-m\""},
      {{"show", "--M", "5"}, "got \"--M\""},
      {{"show", "--js"}, "got \"--js\""},
      {{"show", "stray"}, "got \"stray\""},
      {{"show", ""}, "got \"\""},
      {{"show", "--"}, "got \"--\""},
      {{"show", "++"}, "got \"++\""},
      {{"show", "show"}, "got \"show\""},
      {{"show", "fail"}, "got \"fail\""},
      {{"show", "--m"}, "--m"},
      {{"show", "--m", "--json"}, "--m: got the flag \"--json\""},
      {{"show", "--m", "--m", "5"}, "--m: got the flag \"--m\""},
      {{"show", "--m", "5", "--m", "5"}, "--m"},
      {{"show", "--json", "--json"}, "--json"},
      {{"show", "--json=true"}, "got \"true\""},
      {{"show", "--json="}, "got \"\""},
      {{"show", "two\nlines"}, "got \"two lines\""},
      {{"hold", "a", "b", "c"}, "got \"c\"; allowed: MINE, OTHER, --m"},
      {{"hold", "a", "--n", "b"}, "got \"--n\"; allowed: MINE, OTHER, --m"},
      {{"hold", "-a.json"}, "got \"-a.json\""},
      {{"hold", "a", "--MINE", "b"}, "got \"--MINE\""},
      {{"hold", "a", "--m"}, "--m"},
  }));
  const Outcome outcome = run(bad.arguments);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK_THAT(outcome.err, StartsWith("prog: ") && ContainsSubstring(bad.named));
  CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
}

TEST_CASE("a flag that stands twice, or without its value, is named in one way", "[cli]") {
  CHECK(run({"show", "--m", "4", "--m=5"}).err == "prog: --m: given 2 times; allowed: once\n");
  CHECK(run({"show", "--m", "4", "--m", "4", "--m", "4"}).err ==
        "prog: --m: given 3 times; allowed: once\n");
  CHECK(run({"show", "--json", "--json"}).err == "prog: --json: given 2 times; allowed: once\n");
  CHECK(run({"show", "--json", "--m"}).err ==
        "prog: --m: got no value; allowed: with one behind it\n");
  CHECK(run({"show", "--rows", "4"}).err ==
        "prog: argument: got \"--rows\"; allowed: --m, --json\n");
}

TEST_CASE("--help has exit code 0 and lists what there is", "[cli]") {
  const Outcome program = run({"--help"});
  CHECK(program.exit_code == 0);
  CHECK(program.err.empty());
  CHECK_THAT(program.out, ContainsSubstring("A program.") && ContainsSubstring("show") &&
                              ContainsSubstring("goes wrong"));
  const Outcome subcommand = run({"show", "--help"});
  CHECK(subcommand.exit_code == 0);
  CHECK_THAT(subcommand.out, ContainsSubstring("--m N") && ContainsSubstring("--json"));
}

TEST_CASE("what a subcommand throws becomes its exit code and one line", "[cli]") {
  struct Thrown {
    std::string how;
    int exit_code;
    std::string err;
  };
  const Thrown thrown = GENERATE(values<Thrown>({
      {"argument", 2, "prog: m: got 0\n"},
      {"device", 3, "prog: cuda: none here\n"},
      {"check", 1, "prog: y: wrong\n"},
      {"other", 1, "prog: first line second line\n"},
  }));
  const Outcome outcome = run({"fail", "--how", thrown.how});
  CHECK(outcome.exit_code == thrown.exit_code);
  CHECK(outcome.out.empty());
  CHECK(outcome.err == thrown.err);
}

TEST_CASE("a subcommand may fail with its whole output", "[cli]") {
  const Outcome outcome = run({"fail"});
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.out == "all that was found\n");
}

TEST_CASE("a program prints its outcome and returns its exit code", "[cli]") {
  std::FILE* const out = std::tmpfile();
  std::string err;
  CHECK(run_printed({"show", "--m", "5"}, fileno(out), err) == 0);
  CHECK(text_of(out) == "--m=5;");
  CHECK(err.empty());
  std::fclose(out);
}

TEST_CASE("a program that fails leaves stdout empty", "[cli]") {
  std::FILE* const out = std::tmpfile();
  std::string err;
  CHECK(run_printed({"show", "stray"}, fileno(out), err) == 2);
  CHECK(text_of(out).empty());
  CHECK_THAT(err, StartsWith("prog: "));
  std::fclose(out);
}

TEST_CASE("a stdout that takes nothing has exit code 1 and one line on stderr", "[cli]") {
  const int full = open("/dev/full", O_WRONLY);
  if (full < 0) SKIP("there is no /dev/full here");
  std::string err;
  CHECK(run_printed({"show", "--m", "5"}, full, err) == 1);
  CHECK_THAT(err, StartsWith("prog: stdout: write failed"));
  CHECK(err.find('\n') == err.size() - 1);
  close(full);
}

TEST_CASE("value_or takes what was given, an empty text too", "[cli]") {
  const GivenFlags given = {{"--m", "5"}, {"--n", ""}};
  CHECK(value_or(given, "--m", "1") == "5");
  CHECK(value_or(given, "--n", "1") == "");
  CHECK(value_or(given, "--k", "1") == "1");
}

TEST_CASE("a size is a whole number above zero in decimal digits", "[cli]") {
  CHECK(parse_size("--m", "1") == 1);
  CHECK(parse_size("--m", "4096") == 4096);
  CHECK(parse_size("--m", "9223372036854775807") == 9223372036854775807);
}

TEST_CASE("any other text for a size is refused by name", "[cli]") {
  const std::string text =
      GENERATE(as<std::string>(), "", " ", "0", "-0", "-3", "+5", " 5", "5 ", "5\n", "4.5", "1e3",
               "0x10", "1,000", "1_000", "nan", "inf", "five", "9223372036854775808",
               "-9223372036854775809", "99999999999999999999999999", "010", "00", "0000007");
  CHECK_THROWS_AS(parse_size("--m", text), ArgumentError);
  CHECK_THROWS_WITH(parse_size("--m", text), StartsWith("--m: got \"" + text + "\"; allowed: "));
  if (text == "0") return;
  CHECK_THROWS_WITH(parse_count("--m", text), StartsWith("--m: got \"" + text + "\"; allowed: "));
}

TEST_CASE("a count may be zero", "[cli]") {
  CHECK(parse_count("--m", "0") == 0);
  CHECK(parse_count("--m", "10") == 10);
  CHECK(parse_count("--m", "9223372036854775807") == 9223372036854775807);
}

TEST_CASE("what would be a number but for its dress is told so", "[cli]") {
  const std::string allowed = "; allowed: a whole number above zero, at most 2^63 - 1";
  for (const std::string text : {"010", "+5", " 5", "5 "}) {
    CHECK_THROWS_WITH(parse_size("--m", text), "--m: got \"" + text + "\"" + allowed +
                                                   ", without sign, space or leading zero");
  }
  for (const std::string text : {"0", "-3", "five", "9223372036854775808"}) {
    CHECK_THROWS_WITH(parse_size("--m", text), "--m: got \"" + text + "\"" + allowed);
  }
}

TEST_CASE("a choice is found by its exact name, or refused with the list", "[cli]") {
  constexpr std::string_view names[] = {"book", "exact"};
  CHECK(parse_choice("--convention", "book", names) == 0);
  CHECK(parse_choice("--convention", "exact", names) == 1);
  const std::string text = GENERATE(as<std::string>(), "", "Book", "boo", "books", "book ");
  CHECK_THROWS_WITH(parse_choice("--convention", text, names),
                    "--convention: got \"" + text + "\"; allowed: book, exact");
}

TEST_CASE("a dtype is found by its name among those allowed", "[cli]") {
  constexpr Dtype allowed[] = {Dtype::float16, Dtype::float8_e4m3fn};
  CHECK(parse_dtype("--dtype", "float16", allowed) == Dtype::float16);
  CHECK(parse_dtype("--dtype", "float8_e4m3fn", allowed) == Dtype::float8_e4m3fn);
  const std::string text = GENERATE(as<std::string>(), "float32", "half", "");
  CHECK_THROWS_WITH(parse_dtype("--dtype", text, allowed),
                    "--dtype: got \"" + text + "\"; allowed: float16, float8_e4m3fn");
}

}  // namespace opbook
