// The CPU attention's tile arithmetic: products of small matrices, in registers.
//
// All matrices that are multiplied hold 32-bit words: a word is one fp32 term of a sum, or, where the CPU has
// AVX512-BF16, two neighbouring bf16 terms, which one instruction multiplies and adds. A product is
//   C[row, column] += sum over words w of  A[row, w] . B[w, column]
// with B's columns contiguous (vectors are loaded) and A's words anywhere (they are broadcast). So the
// layouts that a tile of x[rows, K] is packed in are
//   rows        [rows, K / terms]   A, when the sum runs over K
//   transposed  [K / terms, kTile]  B, when the sum runs over K
//   pairs       [rows / terms, K]   B, when the sum runs over rows
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/common/bf16.h"
#include "kernels/common/block_count.h"

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

namespace genesis::cpu {

constexpr int64_t kTile = 64;  // queries and keys of a tile

// Vectors of fp32, and the block of C that is kept in registers: kRows x kVectors of them.
#if defined(__AVX512F__)
constexpr int kLanes = 16, kRows = 4, kVectors = 4;
#elif defined(__AVX__)
constexpr int kLanes = 8, kRows = 4, kVectors = 2;
#else
constexpr int kLanes = 4, kRows = 4, kVectors = 2;
#endif
typedef float Vector __attribute__((vector_size(4 * kLanes), may_alias));

inline Vector broadcast(float x) { return x - Vector{}; }
inline Vector& vector_at(float* p) { return *reinterpret_cast<Vector*>(p); }
inline const Vector& vector_at(const float* p) { return *reinterpret_cast<const Vector*>(p); }

// Rounded up to whole vectors.
constexpr int64_t padded(int64_t K) { return block_count(K, kLanes) * kLanes; }

struct Fp32Words {
  using Word = float;
  static constexpr int kTerms = 1;

  static Vector multiply_add(Word a, const Word* b, Vector c) { return c + broadcast(a) * vector_at(b); }

  template <class T>
  static void load_rows(const T* x, int64_t K, Word* words) {
    for (int64_t i = 0; i < K; ++i) words[i] = float(x[i]);
  }
  template <class T>
  static Word load_word(const T* x) {
    return float(*x);
  }
  template <class T>
  static Word pair(const T* first, const T*) {
    return float(*first);
  }

  // A row of a tile of C, rounded to words: as `rows`, or with the next row as `pairs`.
  static void store_row(const float* x, Word* words) { std::memcpy(words, x, kTile * sizeof(float)); }
  static void store_pairs(const float* x, Word* words) { std::memcpy(words, x, kTile * sizeof(float)); }
};

#ifdef __AVX512BF16__
struct Bf16Words {
  using Word = uint32_t;  // the first term in the lower half
  static constexpr int kTerms = 2;

  static Vector multiply_add(Word a, const Word* b, Vector c) {
    const __m512i pairs = _mm512_load_si512(b);
    return Vector(_mm512_dpbf16_ps(__m512(c), (__m512bh)(_mm512_set1_epi32(int(a))), (__m512bh)(pairs)));
  }

  static void load_rows(const bf16* x, int64_t K, Word* words) {
    std::memcpy(words, x, size_t(K) * sizeof(bf16));
  }
  static Word load_word(const bf16* x) {
    Word w;
    std::memcpy(&w, x, sizeof w);
    return w;
  }
  static Word pair(const bf16* first, const bf16* second) {
    return first->bits | uint32_t(second->bits) << 16;
  }

  static void store_row(const float* x, Word* words) {
    for (int64_t i = 0; i < kTile; i += 2 * kLanes) {
      const __m512bh y = _mm512_cvtne2ps_pbh(_mm512_load_ps(x + i + kLanes), _mm512_load_ps(x + i));
      _mm512_store_si512(words + i / 2, (__m512i)(y));
    }
  }
  static void store_pairs(const float* x, Word* words) {
    const __m512i interleave = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,
                                                23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    for (int64_t i = 0; i < kTile; i += kLanes) {
      const __m512bh y = _mm512_cvtne2ps_pbh(_mm512_load_ps(x + kTile + i), _mm512_load_ps(x + i));
      _mm512_store_si512(words + i, _mm512_permutexvar_epi16(interleave, (__m512i)(y)));
    }
  }
};
#endif

// What a storage type is multiplied in.
#ifdef __AVX512BF16__
template <class T>
using WordsOf = std::conditional_t<std::is_same_v<T, bf16>, Bf16Words, Fp32Words>;
#else
template <class T>
using WordsOf = Fp32Words;
#endif

// Packs x[n, K], rows `stride` apart, as `rows`; the tile's rows behind n are zero. So do the next two.
template <class W, class T>
void pack_rows(const T* x, int64_t stride, int64_t n, int64_t K, typename W::Word* words) {
  const int64_t width = K / W::kTerms;
  for (int64_t r = 0; r < n; ++r) W::load_rows(x + r * stride, K, words + r * width);
  std::fill_n(words + n * width, (kTile - n) * width, typename W::Word(0));
}

template <class W, class T>
void pack_transposed(const T* x, int64_t stride, int64_t n, int64_t K, typename W::Word* words) {
  for (int64_t w = 0; w < K / W::kTerms; ++w) {
    for (int64_t r = 0; r < n; ++r) words[w * kTile + r] = W::load_word(x + r * stride + w * W::kTerms);
    std::fill_n(words + w * kTile + n, kTile - n, typename W::Word(0));
  }
}

// Columns behind K, up to padded(K), are zero too.
template <class W, class T>
void pack_pairs(const T* x, int64_t stride, int64_t n, int64_t K, typename W::Word* words) {
  const int64_t width = padded(K);
  std::fill_n(words, kTile / W::kTerms * width, typename W::Word(0));
  const T zero{};
  for (int64_t r = 0; r < n; r += W::kTerms) {
    const T* first = x + r * stride;
    const bool whole = r + W::kTerms <= n;
    typename W::Word* row = words + r / W::kTerms * width;
    for (int64_t i = 0; i < K; ++i)
      row[i] = W::pair(first + i, whole ? first + (W::kTerms - 1) * stride + i : &zero);
  }
}

enum class Start { zero, add, scale };  // C starts as 0, as what it is, or as each row times its factor

// The elements that a product needs when it lies on the diagonal, where a key's column is at most the
// query's.
enum class Skip { none, columns_before_row, terms_before_row, terms_after_row };

template <class Word>
struct Broadcast {  // an operand A: word (row, w) is at[row * row_stride + w * word_stride]
  const Word* at;
  int64_t row_stride, word_stride;
};

template <class Word>
struct Columns {  // an operand B: word (w, column) is at[w * stride + column]
  const Word* at;
  int64_t stride;
};

template <class W, Start start, int vectors>
void multiply_block(Broadcast<typename W::Word> a, Columns<typename W::Word> b, int64_t words, float* c,
                    int64_t c_stride, const float* factor) {
  Vector sum[kRows][vectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      const float* at = c + r * c_stride + v * kLanes;
      if constexpr (start == Start::zero) sum[r][v] = Vector{};
      if constexpr (start == Start::add) sum[r][v] = vector_at(at);
      if constexpr (start == Start::scale) sum[r][v] = vector_at(at) * broadcast(factor[r]);
    }
  }
  for (int64_t w = 0; w < words; ++w) {
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < vectors; ++v) {
        sum[r][v] = W::multiply_add(a.at[r * a.row_stride + w * a.word_stride],
                                    b.at + w * b.stride + v * kLanes, sum[r][v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < vectors; ++v) vector_at(c + r * c_stride + v * kLanes) = sum[r][v];
  }
}

// C[rows, columns]: rows a multiple of kRows, columns of kLanes; the sum runs over `terms` terms, a multiple
// of kRows. `factors` [rows] with Start::scale.
template <class W, Start start, Skip skip>
void multiply(int64_t rows, int64_t columns, int64_t terms, Broadcast<typename W::Word> a,
              Columns<typename W::Word> b, float* c, int64_t c_stride, const float* factors = nullptr) {
  for (int64_t r = 0; r < rows; r += kRows) {
    const int64_t column_0 = skip == Skip::columns_before_row ? r / kLanes * kLanes : 0;
    const int64_t w_0 = (skip == Skip::terms_before_row ? r : 0) / W::kTerms;
    const int64_t w_1 = (skip == Skip::terms_after_row ? std::min(terms, r + kRows) : terms) / W::kTerms;
    const Broadcast<typename W::Word> a_rows = {a.at + r * a.row_stride + w_0 * a.word_stride, a.row_stride,
                                                a.word_stride};
    for (int64_t column = column_0; column < columns; column += kVectors * kLanes) {
      const Columns<typename W::Word> b_columns = {b.at + w_0 * b.stride + column, b.stride};
      float* c_block = c + r * c_stride + column;
      const float* factor = factors ? factors + r : nullptr;
      const auto run = [&](auto vectors) {
        multiply_block<W, start, vectors>(a_rows, b_columns, w_1 - w_0, c_block, c_stride, factor);
      };
      switch (std::min<int64_t>(kVectors, (columns - column) / kLanes)) {
        case 1:
          run(std::integral_constant<int, 1>());
          break;
        case 2:
          run(std::integral_constant<int, 2>());
          break;
        case 3:
          run(std::integral_constant<int, std::min(3, kVectors)>());
          break;
        default:
          run(std::integral_constant<int, kVectors>());
      }
    }
  }
}

}  // namespace genesis::cpu
