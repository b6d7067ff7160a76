#include "io/xxh3.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace genesis {

struct Xxh3::State {
  XXH3_state_t* of = XXH3_createState();
  State() { XXH3_64bits_reset(of); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XXH3_freeState(of); }
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) {}
Xxh3::~Xxh3() = default;

void Xxh3::add(const void* data, size_t n) { XXH3_64bits_update(state_->of, data, n); }

std::string Xxh3::digest() const { return fmt::format("{:016x}", XXH3_64bits_digest(state_->of)); }

}  // namespace genesis
