// How many blocks a count makes: by itself, since CUDA sources and kernels take it too.
#pragma once

#include <type_traits>

namespace genesis {

// The number of blocks of `block` that cover n.
template <class T>
constexpr T block_count(T n, std::type_identity_t<T> block) {
  return (n + block - 1) / block;
}

}  // namespace genesis
