// What the pages share: their colors, their files (which are in the program), and how text gets into them.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace genesis {

// Colors of curves that can be told apart on a light and on a dark ground, by those too who see few colors
// (Okabe and Ito's, https://jfly.uni-koeln.de/color/, darker or lighter for their ground).
struct PaletteColor {
  const char *light, *dark;
};
constexpr int kColors = 7;
constexpr std::array<PaletteColor, kColors> kPalette{{{"#0b64a8", "#5db4f0"},
                                                      {"#c04a00", "#f08c4a"},
                                                      {"#00795a", "#35c79c"},
                                                      {"#a4447c", "#e08fc0"},
                                                      {"#806a00", "#e3cf3f"},
                                                      {"#3d7f9c", "#93d4ee"},
                                                      {"#50565c", "#b9c0c7"}}};

// As text between tags or in a quoted attribute.
std::string escape_html(std::string_view text);

// For <script type="application/json">: nothing in it can end the script. Bytes that are not UTF-8 become
// U+FFFD.
std::string json_in_html(const nlohmann::ordered_json& json);

// The page `html` with each {{key}} replaced, and {{style}} and {{charts}} by what all pages share. What is put
// in is not looked at again, so it may hold braces.
std::string fill_page(std::string_view html, const std::vector<std::pair<std::string, std::string>>& values);

// The files of apps/, as the build has put them into the program.
namespace page_files {
extern const std::string_view style_css, charts_js, report_html, report_js, playground_html, playground_css,
    playground_js;
}

}  // namespace genesis
