#include "apps/page/page.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/common/error.h"

namespace genesis {
namespace {

std::string palette_css() {
  std::string light, dark, classes;
  for (int i = 0; i < kColors; ++i) {
    light += fmt::format("--c{}:{};", i, kPalette[size_t(i)].light);
    dark += fmt::format("--c{}:{};", i, kPalette[size_t(i)].dark);
    classes += fmt::format(".c{0}{{--color:var(--c{0})}}\n", i);
  }
  return fmt::format(":root{{{}}}\n@media (prefers-color-scheme:dark){{:root{{{}}}}}\n{}", light, dark,
                     classes);
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string json_in_html(const nlohmann::ordered_json& json) {
  const std::string text = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string out;
  for (const char c : text) out += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return out;
}

std::string fill_page(std::string_view html, const std::vector<std::pair<std::string, std::string>>& values) {
  std::string out;
  for (size_t at = 0;;) {
    const size_t begin = html.find("{{", at);
    out += html.substr(at, begin == std::string_view::npos ? begin : begin - at);
    if (begin == std::string_view::npos) return out;
    const size_t end = html.find("}}", begin);
    require(end != std::string_view::npos, "a page's {{key}} ends");
    const std::string_view key = html.substr(begin + 2, end - begin - 2);
    at = end + 2;
    if (key == "style") {
      (out += palette_css()) += page_files::style_css;
    } else if (key == "charts") {
      out += page_files::charts_js;
    } else {
      const auto value =
          std::find_if(values.begin(), values.end(), [&](const auto& entry) { return entry.first == key; });
      require(value != values.end(), "a page has no key that nobody fills");
      out += value->second;
    }
  }
}

}  // namespace genesis
