// Switching between the threads of a block: Boost.Context's fcontext, 13 ns a switch (measured here), with
// the annotations that AddressSanitizer needs to follow.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

namespace genesis::simt::host {

// Stacks of one size in one mapping, each with an unreadable page below it.
class Stacks {
 public:
  Stacks() = default;
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  void reserve(int count);  // for as many fibers; takes back all that are out
  void* take();             // the highest address of one that is not out
  static size_t usable_bytes();

 private:
  void* mapping_ = nullptr;
  int count_ = 0;
  int out_ = 0;
};

// A suspended flow of control: a thread of a block, or the host thread that runs the block.
struct Fiber {
  boost::context::detail::fcontext_t context = nullptr;
  void (*entry)(void*) = nullptr;
  void* argument = nullptr;
  // For AddressSanitizer: the stack, which for the host's own is learnt at the first switch away from it.
  const void* stack_bottom = nullptr;
  size_t stack_bytes = 0;
  void* fake_stack = nullptr;
};

// Makes `fiber` call entry(argument) on the stack below `top` at the first switch to it. entry must not
// return: it ends in leave_fiber.
void prepare(Fiber& fiber, void* top, void (*entry)(void*), void* argument);

// Suspends `from` and goes on in `to`. Returns when someone switches to `from` again.
void switch_fiber(Fiber& from, Fiber& to);
// As switch_fiber, from a fiber that will not be switched to again.
void leave_fiber(Fiber& from, Fiber& to);

}  // namespace genesis::simt::host
