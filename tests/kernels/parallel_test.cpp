#include "kernels/common/parallel.h"

#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kernels/matmul/matmul_cases.h"
#include "tests/support/catch.h"

using namespace genesis;
using namespace std::chrono_literals;

namespace {

class Threads {
 public:
  explicit Threads(int n) : before_(thread_count()) { set_thread_count(n); }
  ~Threads() { set_thread_count(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

// Whether parallel_for calls each of [0, n) once, on threads whose numbers are in range and no two at once the
// same.
bool each_once(int64_t n) {
  std::vector<std::atomic<int>> calls(static_cast<size_t>(n)), busy(static_cast<size_t>(thread_count()));
  std::atomic<bool> wrong = false;
  parallel_for(n, [&](int64_t i) {
    const size_t thread = size_t(thread_index());
    if (thread >= busy.size() || busy[thread].fetch_add(1) != 0) wrong = true;
    calls[size_t(i)] += 1;
    for (volatile int work = 0; work < 500;) work = work + 1;  // some time for others to come
    if (thread < busy.size()) busy[thread] -= 1;
  });
  for (const auto& c : calls) wrong = wrong || c != 1;
  return !wrong;
}

auto threads_of_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

}  // namespace

TEST_CASE("start_threads makes all that a loop will want, once") {
  const Threads use(12);  // more than any other test here
  start_threads();
  const auto threads = threads_of_process();
  CHECK(threads >= 12);
  for (int again = 0; again < 3; ++again) start_threads();
  CHECK(each_once(40));
  CHECK(threads_of_process() == threads);
}

TEST_CASE("parallel_for: every iteration once, with any number of threads, again and again") {
  for (const int threads : {1, 2, 3, 8, 2, 1, 5}) {
    const Threads use(threads);
    INFO(threads << " threads");
    CHECK(thread_count() == threads);
    for (const int64_t n : {0, 1, 2, 3, 7, 100}) CHECK(each_once(n));
    bool all = true;
    for (int loop = 0; loop < 500; ++loop) all = all && each_once(1 + loop % 9);
    CHECK(all);
  }
}

TEST_CASE("parallel_for: by threads that have slept") {
  const Threads use(4);
  for (int loop = 0; loop < 20; ++loop) {
    CHECK(each_once(8));
    std::this_thread::sleep_for(1ms);
  }
}

TEST_CASE("parallel_for: inside another, and in several threads at once") {
  const Threads use(3);
  std::atomic<int> calls = 0;
  parallel_for(5, [&](int64_t) {
    const int outer = thread_index();
    parallel_for(7, [&](int64_t) { calls += thread_index() == outer; });
  });
  CHECK(calls == 35);

  std::atomic<int> right = 0;
  std::vector<std::thread> callers;
  for (int t = 0; t < 3; ++t) {
    callers.emplace_back([&] {
      for (int loop = 0; loop < 200; ++loop) right += each_once(6);
    });
  }
  for (std::thread& t : callers) t.join();
  CHECK(right == 600);
}

TEST_CASE("parallel_for: an exception comes out where the loop was begun, and the threads go on") {
  for (const int threads : {1, 4}) {
    const Threads use(threads);
    for (int loop = 0; loop < 50; ++loop) {
      CHECK_THROWS_AS(parallel_for(9,
                                   [](int64_t i) {
                                     if (i % 3 == 1) throw std::runtime_error("no");
                                   }),
                      std::runtime_error);
      CHECK(each_once(9));
    }
  }
}

// What makes a run beside other programs usable: a thread that waits leaves its core to them.
TEST_CASE("parallel_for: threads sleep while they wait for work and for each other") {
  const Threads use(4);
  CHECK(each_once(16));
  const double cpu = cpu_seconds();
  const auto start = std::chrono::steady_clock::now();
  for (int loop = 0; loop < 25; ++loop) {
    parallel_for(4, [](int64_t i) {
      if (i == 0) std::this_thread::sleep_for(4ms);
    });
    std::this_thread::sleep_for(4ms);
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  CHECK(cpu_seconds() - cpu < 0.3 * wall.count());
}

TEST_CASE("matmul: its products are the pool's work, and start no threads of their own") {
  const Threads use(3);
  CHECK(each_once(3));
  const auto before = threads_of_process();
  for (const DType in : {DType::f32, DType::bf16}) {
    MatMulProblem p({"large", 520, 700, 1100, false, true}, in, DType::f32);
    const cpu::MatMul product(p.shape);
    product(p.a.data(), p.b.data(), p.c.data(), p.workspace.data());
  }
  CHECK(threads_of_process() == before);
}
