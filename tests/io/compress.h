// Compressed files for tests.
#pragma once

#include <zlib.h>
#include <zstd.h>

#include <string>

namespace genesis {

inline std::string gzipped(const std::string& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, uLong(bytes.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = uInt(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = uInt(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string zstandard(const std::string& bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3));
  return out;
}

// With a window in its header, and not its size: what a pipe into zstd gives.
inline std::string zstandard_stream(const std::string& bytes) {
  ZSTD_CStream* stream = ZSTD_createCStream();
  ZSTD_CCtx_setParameter(stream, ZSTD_c_windowLog, 13);
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  ZSTD_compressStream2(stream, &to, &in, ZSTD_e_continue);
  ZSTD_compressStream2(stream, &to, &in, ZSTD_e_end);
  ZSTD_freeCStream(stream);
  out.resize(to.pos);
  return out;
}

}  // namespace genesis
