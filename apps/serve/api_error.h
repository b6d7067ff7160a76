// What a client is told went wrong: an HTTP status, and {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "kernels/common/error.h"

namespace genesis {

struct ApiError : Error {
  int status;
  std::string param, code;  // empty: null

  ApiError(int status, const std::string& message, std::string param = "", std::string code = "")
      : Error(message), status(status), param(std::move(param)), code(std::move(code)) {}
};

// Throws 400 for a field of a request.
inline void check_field(bool ok, const std::string& field, const std::string& message) {
  if (!ok) throw ApiError(400, field + ": " + message, field);
}

// A message may quote what a client has sent: bytes that are not UTF-8 become U+FFFD.
inline nlohmann::ordered_json json_of(const ApiError& e) {
  using Json = nlohmann::ordered_json;
  const auto text = [](const std::string& s) {
    return Json::parse(Json(s).dump(-1, ' ', false, Json::error_handler_t::replace));
  };
  const auto or_null = [&](const std::string& s) { return s.empty() ? Json() : text(s); };
  const char* type = e.status == 429  ? "rate_limit_error"
                     : e.status < 500 ? "invalid_request_error"
                                      : "server_error";
  return {{"error",
           {{"message", text(e.what())},
            {"type", type},
            {"param", or_null(e.param)},
            {"code", or_null(e.code)}}}};
}

}  // namespace genesis
