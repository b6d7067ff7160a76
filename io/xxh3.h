// XXH3, 64 bits (github.com/Cyan4973/xxHash), of bytes that come in pieces.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace genesis {

class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  void add(const void* data, size_t n);
  std::string digest() const;  // of all so far: 16 lower-case hexadecimal digits, as `xxhsum -H3` prints them

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace genesis
