#include "kernels/simt/host/fiber.h"

#include <sys/mman.h>

#include "kernels/common/error.h"

#if defined(__SANITIZE_ADDRESS__)
#define SIMT_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIMT_ADDRESS_SANITIZER 1
#endif
#endif
#ifdef SIMT_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace genesis::simt::host {
namespace {

namespace context = boost::context::detail;

constexpr size_t kPage = 4096;
#ifdef SIMT_ADDRESS_SANITIZER
constexpr size_t kStackBytes = 256 * 1024;
#else
constexpr size_t kStackBytes = 64 * 1024;
#endif
// Tops at a power of two apart would share a set of the first-level cache.
constexpr size_t kStagger = 5 * 64;
constexpr size_t kStaggers = 32;

struct Passed {  // to the fiber that is switched to
  Fiber* from;
  Fiber* to;
};

void starting(void** fake_stack, const Fiber& to) {
#ifdef SIMT_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(fake_stack, to.stack_bottom, to.stack_bytes);
#else
  (void)fake_stack, (void)to;
#endif
}

Fiber& arrived(const context::transfer_t& t) {
  const Passed passed = *static_cast<const Passed*>(t.data);
  passed.from->context = t.fctx;
#ifdef SIMT_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(passed.to->fake_stack, &passed.from->stack_bottom,
                                  &passed.from->stack_bytes);
#endif
  return *passed.to;
}

void first_arrival(context::transfer_t t) {
  Fiber& here = arrived(t);
  here.entry(here.argument);
}

}  // namespace

Stacks::~Stacks() {
  if (mapping_) munmap(mapping_, size_t(count_) * kStackBytes);
}

size_t Stacks::usable_bytes() { return kStackBytes - kPage - kStagger * kStaggers; }

void Stacks::reserve(int count) {
  if (count > count_) {
    if (mapping_) munmap(mapping_, size_t(count_) * kStackBytes);
    mapping_ = mmap(nullptr, size_t(count) * kStackBytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check(mapping_ != MAP_FAILED, "simt: no memory for the stacks of " + std::to_string(count) + " threads");
    count_ = count;
    for (int i = 0; i < count; ++i) {
      mprotect(static_cast<char*>(mapping_) + size_t(i) * kStackBytes, kPage, PROT_NONE);
    }
  }
  out_ = 0;
}

void* Stacks::take() {
  const auto i = size_t(out_++);
  return static_cast<char*>(mapping_) + (i + 1) * kStackBytes - i % kStaggers * kStagger;
}

void prepare(Fiber& fiber, void* top, void (*entry)(void*), void* argument) {
  const size_t bytes = Stacks::usable_bytes();
  fiber.stack_bottom = static_cast<char*>(top) - bytes;
  fiber.stack_bytes = bytes;
  fiber.entry = entry;
  fiber.argument = argument;
  fiber.fake_stack = nullptr;
#ifdef SIMT_ADDRESS_SANITIZER
  // A block that failed leaves its frames behind, and their red zones.
  __asan_unpoison_memory_region(fiber.stack_bottom, bytes);
#endif
  fiber.context = context::make_fcontext(top, bytes, first_arrival);
}

void switch_fiber(Fiber& from, Fiber& to) {
  Passed passed{&from, &to};
  starting(&from.fake_stack, to);
  arrived(context::jump_fcontext(to.context, &passed));
}

void leave_fiber(Fiber& from, Fiber& to) {
  Passed passed{&from, &to};
  starting(nullptr, to);
  context::jump_fcontext(to.context, &passed);
}

}  // namespace genesis::simt::host
