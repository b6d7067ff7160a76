// What a training step allocates, asked of malloc itself: this program has its own.
#include <atomic>
#include <cerrno>
#include <cstddef>

#include "bench/products.h"
#include "model/init.h"
#include "tests/support/catch.h"
#include "tests/support/trainee.h"

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

struct Allocations {
  int64_t count = 0, bytes = 0;
};

std::atomic<bool> counting = false;
std::atomic<int64_t> count = 0, bytes = 0;

void note(size_t n) {
  if (!counting) return;
  ++count;
  bytes += int64_t(n);
}

template <class Body>
Allocations allocations_of(const Body& body) {
  count = bytes = 0;
  counting = true;
  body();
  counting = false;
  return {count, bytes};
}

}  // namespace

extern "C" {
void* malloc(size_t n) {
  note(n);
  return __libc_malloc(n);
}
void* calloc(size_t k, size_t n) {
  note(k * n);
  return __libc_calloc(k, n);
}
void* realloc(void* p, size_t n) {
  note(n);
  return __libc_realloc(p, n);
}
void* memalign(size_t align, size_t n) {
  note(n);
  return __libc_memalign(align, n);
}
void* aligned_alloc(size_t align, size_t n) {
  note(n);
  return __libc_memalign(align, n);
}
int posix_memalign(void** p, size_t align, size_t n) {
  note(n);
  *p = __libc_memalign(align, n);
  return *p ? 0 : ENOMEM;
}
}

using namespace genesis;

TEST_CASE("allocations: the count sees what is allocated in any way") {
  CHECK(allocations_of([] {}).count == 0);
  const Allocations found = allocations_of([] {
    std::vector<char> vector(100);
    const auto aligned = std::unique_ptr<void, void (*)(void*)>(std::aligned_alloc(64, 128), std::free);
    const auto zeroed = std::unique_ptr<void, void (*)(void*)>(std::calloc(10, 20), std::free);
    CHECK_FALSE((vector.empty() || aligned == nullptr || zeroed == nullptr));
  });
  CHECK(found.count >= 3);
  CHECK(found.bytes >= 428);
}

// oneDNN allocates its list of arguments in every call, and that is all that a step does: the scratch memory of
// every op, oneDNN's products included, is in the plan.
TEST_CASE("allocations: a step on the CPU allocates nothing but what oneDNN does inside its calls") {
  for (const bool recurrent : {false, true}) {
    Config::Model m = recurrent ? tiny_recurrent_model() : tiny_model();
    m.vocab_size = 1000;
    const int64_t B = 2, T = 100;
    for (const auto& [dtype, kind] : {std::pair(DType::f32, Config::OptimKind::adamw),
                                      {DType::bf16, Config::OptimKind::adamw},
                                      {DType::f32, Config::OptimKind::muon},
                                      {DType::bf16, Config::OptimKind::muon}}) {
      INFO(name_of(dtype) << (recurrent ? ", recurrent, " : ", dense, ") << name_of(kind));
      Config::Optim optim;
      optim.kind = kind;
      Trainee trainee(m, {B, T, true}, recurrent ? 2 : 1,
                      {.dtype = dtype, .recompute = Config::Recompute::block, .optim = optim});
      initialise_parameters(m, 1, trainee.storage());
      const TokenBatch batch = random_batch(m.vocab_size, B, T, true, 1);
      const auto products = [&](Phase phase) {
        return Products(trainee.storage().device(), trainee.executable().graph(),
                        [phase](const Node& node) { return node.phase == phase; });
      };
      const Products of_micro = products(Phase::micro), of_update = products(Phase::update);
      const auto step = [&](int number) {
        trainee.begin();
        for (int i = 0; i < 2; ++i) trainee.micro(batch);
        trainee.update(1e-3f, number);
      };
      const auto same_products = [&] {
        for (int i = 0; i < 2; ++i) of_micro.run();
        of_update.run();
      };
      step(1);  // prepares
      same_products();
      const Allocations of_products = allocations_of(same_products);
      for (const int number : {2, 3}) {
        const Allocations of_step = allocations_of([&] { step(number); });
        CHECK(of_step.count <= of_products.count);
        CHECK(of_step.bytes <= of_products.bytes);
      }
    }
  }
}
