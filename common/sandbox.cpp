#include "common/sandbox.hpp"

#include <fcntl.h>
#include <omp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <new>
#include <system_error>
#include <thread>

#include "common/build_kind.hpp"
#include "common/exercise.hpp"

namespace opbook {
namespace {

using How = ChildEnd::How;
using Clock = std::chrono::steady_clock;

/// What a child says of its end. Small enough for a pipe to take it whole.
struct Message {
  How how;
  bool wrote;
  const void* address;
  char text[256];
};

// The child's alone: signal and terminate handlers take no arguments of ours.
int message_pipe = -1;

/// Safe in a signal handler.
[[noreturn]] void leave(const Message& message) {
  const ssize_t written = write(message_pipe, &message, sizeof message);
  _exit(written == sizeof message ? 0 : 1);
}

[[noreturn]] void leave(How how, const char* text) {
  std::fflush(stdout);
  Message message{how, false, nullptr, {}};
  std::snprintf(message.text, sizeof message.text, "%s", text);
  leave(message);
}

/// Ends the child with what is being thrown. Also the terminate handler: an exception may leave a
/// function or a loop that promised otherwise.
[[noreturn]] void leave_with_exception() {
  try {
    throw;
  } catch (const NotStarted& error) {
    leave(How::not_started, error.what());
  } catch (const std::bad_alloc&) {
    leave(How::out_of_memory, "");
  } catch (const std::exception& error) {
    leave(How::threw, error.what());
  } catch (...) {
    leave(How::threw, "something that is no std::exception");
  }
}

[[noreturn]] void on_terminate() {
  if (std::current_exception()) leave_with_exception();
  leave(How::died, "std::terminate was called");
}

void on_bad_access(int, siginfo_t* info, void* context) {
  Message message{How::bad_access, false, info->si_addr, {}};
#if defined(__x86_64__)
  constexpr greg_t write_bit = 2;  // of the page fault's error code
  message.wrote = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & write_bit;
#else
  static_cast<void>(context);
#endif
  leave(message);
}

void catch_bad_accesses() {
  // A stack of its own: the one at hand may be what is full.
  static std::byte memory[64 * 1024];
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = sizeof memory;
  sigaltstack(&stack, nullptr);
  struct sigaction action{};
  action.sa_sigaction = on_bad_access;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int number : {SIGSEGV, SIGBUS}) sigaction(number, &action, nullptr);
}

void set_limit(__rlimit_resource resource, rlim_t value) {
  rlimit limit{};
  getrlimit(resource, &limit);
  limit.rlim_cur = std::min(value, limit.rlim_max);
  limit.rlim_max = limit.rlim_cur;
  setrlimit(resource, &limit);
}

/// Of this process, as Linux counts it for RLIMIT_AS.
rlim_t address_space_bytes() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

void limit_child(const Limits& limits) {
  set_limit(RLIMIT_CORE, 0);
  // The parent's clock rules; this one is for a child whose parent is gone.
  set_limit(RLIMIT_CPU, static_cast<rlim_t>(std::ceil(limits.seconds)) + 1);
  if (!address_sanitizer) set_limit(RLIMIT_AS, address_space_bytes() + limits.memory_bytes);
}

[[noreturn]] void be_the_child(const std::function<void()>& body, const Limits& limits) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int number : {SIGABRT, SIGFPE, SIGILL, SIGINT, SIGTERM}) signal(number, SIG_DFL);
  catch_bad_accesses();
  std::set_terminate(on_terminate);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  omp_set_num_threads(1);  // the parent's threads are not here
  limit_child(limits);
  try {
    body();
  } catch (...) {
    leave_with_exception();
  }
  leave(How::returned, "");
}

/// Waits until the child ends by itself; false where it ran out of time.
bool ends_within(pid_t child, double seconds) {
  const Clock::time_point deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                        std::chrono::duration<double>(seconds));
  while (Clock::now() < deadline) {
    siginfo_t info{};
    waitid(P_PID, child, &info, WEXITED | WNOHANG | WNOWAIT);
    if (info.si_pid == child) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

ChildEnd died_of(int status) {
  if (!WIFSIGNALED(status)) {
    return {How::died,
            "it ended the program, with exit code " + std::to_string(WEXITSTATUS(status))};
  }
  const int number = WTERMSIG(status);
  if (number == SIGXCPU) return {How::out_of_time, ""};
  return {How::died, std::string("signal ") + std::to_string(number) + ", " + strsignal(number)};
}

}  // namespace

ChildEnd run_in_child(const std::function<void()>& body, const Limits& limits) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  std::fflush(nullptr);  // or the child would print it again
  const pid_t child = fork();
  if (child < 0) {
    const int error = errno;
    close(ends[0]);
    close(ends[1]);
    throw std::system_error(error, std::generic_category(), "fork");
  }
  if (child == 0) {
    message_pipe = ends[1];
    be_the_child(body, limits);
  }
  close(ends[1]);
  const bool in_time = ends_within(child, limits.seconds);
  kill(-child, SIGKILL);  // and whatever it has started
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  Message message{};
  const bool told = read(ends[0], &message, sizeof message) == sizeof message;
  close(ends[0]);
  if (!in_time) return {How::out_of_time, ""};
  if (!told) return died_of(status);
  return {message.how, message.text, message.address, message.wrote};
}

}  // namespace opbook
