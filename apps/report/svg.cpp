#include "apps/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "apps/page/page.h"
#include "io/format.h"

namespace genesis {
namespace {

constexpr double kWidth = 860, kMargin = 16, kTitle = 34, kGap = 14;
constexpr double kLeft = 56, kTop = 28, kBottom = 26, kRight = 18;  // of a panel, around its curves
constexpr double kFirstHeight = 300, kHeight = 180;

struct Box {
  double x, y, width, height;
};

struct Range {
  double low = 0, high = 1;
};

// What most of the points are in: a spike or the first steps' loss must not flatten all the rest.
Range values_in(const Panel& panel) {
  std::vector<double> all;
  Range measured{INFINITY, -INFINITY};
  for (const Curve& c : panel.curves) {
    for (const CurvePoint& p : c.points) {
      if (c.kind == Curve::Kind::measured)
        measured = {std::min(measured.low, p.low), std::max(measured.high, p.high)};
      all.push_back(p.value);
    }
  }
  std::sort(all.begin(), all.end());
  const size_t trim = all.size() / 200;
  Range range{std::min(all[trim], measured.low), std::max(all[all.size() - 1 - trim], measured.high)};
  const double size = std::abs(range.high);
  if (range.high - range.low <= 1e-3 * size) {  // a constant, in the middle
    const double half = size == 0 ? 1 : size / 2;
    return {range.low - half, range.high + half};
  }
  const double air = 0.05 * (range.high - range.low);
  return {range.low >= 0 ? std::max(0., range.low - air) : range.low - air, range.high + air};
}

// Round numbers within the range, at most `most`: 1, 2 or 5 times a power of ten apart.
std::vector<double> ticks_in(Range range, int most) {
  const double least = (range.high - range.low) / most, power = std::pow(10., std::floor(std::log10(least)));
  double step = 10 * power;
  for (double factor : {5., 2., 1.}) {
    if (factor * power >= least) step = factor * power;
  }
  std::vector<double> ticks;
  for (double i = std::ceil(range.low / step); i * step <= range.high; ++i) ticks.push_back(i * step);
  return ticks;
}

std::string label_of(double value) {
  return std::abs(value) >= 1e4 ? format_count(value) : fmt::format("{:.4g}", value + 0.);
}

// Where a panel's values are in the picture. Logarithmic where the panel asks for it and its values allow.
class Axes {
 public:
  Axes(const Panel& panel, Range steps, Box box)
      : box_(box), steps_(steps), values_(values_in(panel)), log_(panel.log_scale && lowest(panel) > 0) {
    if (log_) values_ = {std::max(values_.low, lowest(panel)), values_.high};
  }
  double x(double step) const {
    return box_.x + box_.width * (step - steps_.low) / (steps_.high - steps_.low);
  }
  double y(double value) const {
    const double part = (scaled(value) - scaled(values_.low)) / (scaled(values_.high) - scaled(values_.low));
    return box_.y + box_.height * (1 - std::clamp(part, -0.05, 1.05));
  }
  std::vector<double> value_ticks() const {
    if (!log_) return ticks_in(values_, 5);
    std::vector<double> ticks;
    for (double power = std::pow(10., std::floor(std::log10(values_.low))); power <= values_.high;
         power *= 10) {
      for (double factor : {1., 2., 5.}) {
        const double tick = factor * power;
        if (tick >= values_.low && tick <= values_.high) ticks.push_back(tick);
      }
    }
    return ticks;
  }
  std::vector<double> step_ticks() const { return ticks_in(steps_, box_.width > 500 ? 8 : 4); }

 private:
  static double lowest(const Panel& panel) {
    double low = INFINITY;
    for (const Curve& c : panel.curves) {
      for (const CurvePoint& p : c.points) low = std::min(low, p.low);
    }
    return low;
  }
  double scaled(double value) const { return log_ ? std::log(std::max(value, 1e-30)) : value; }

  Box box_;
  Range steps_, values_;
  bool log_;
};

std::string polyline(const std::vector<std::pair<double, double>>& points, const std::string& attributes) {
  std::string out = "<polyline points=\"";
  for (const auto& [x, y] : points) out += fmt::format("{:.1f},{:.1f} ", x, y);
  return out + fmt::format("\" {}/>\n", attributes);
}

// The mean of what is around a point, weighted by keep^distance.
std::vector<double> smoothed(const std::vector<CurvePoint>& points, double keep) {
  std::vector<double> sums(points.size()), weights(points.size());
  const auto add_from = [&](auto begin, auto end, auto at) {
    double sum = 0, weight = 0;
    for (auto p = begin; p != end; ++p) {
      const size_t i = at(p);
      sums[i] += keep * sum;
      weights[i] += keep * weight;
      sum = keep * sum + p->value;
      weight = keep * weight + 1;
    }
  };
  add_from(points.begin(), points.end(), [&](auto p) { return size_t(p - points.begin()); });
  add_from(points.rbegin(), points.rend(), [&](auto p) { return size_t(points.rend() - p) - 1; });
  for (size_t i = 0; i < points.size(); ++i) sums[i] = (sums[i] + points[i].value) / (weights[i] + 1);
  return sums;
}

std::string draw_curve(const Curve& curve, const Axes& axes) {
  const std::string color = fmt::format("c{}", curve.color % kColors);
  std::vector<std::pair<double, double>> line, smooth;
  for (const CurvePoint& p : curve.points) line.emplace_back(axes.x(double(p.step)), axes.y(p.value));
  if (curve.kind == Curve::Kind::measured) {
    std::string out = polyline(line, fmt::format("class=\"{} line\" stroke-dasharray=\"4 3\"", color));
    for (const CurvePoint& p : curve.points) {  // what it may be off by
      if (p.low == p.high) continue;
      out += fmt::format("<path class=\"{} line\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>\n", color,
                         axes.x(double(p.step)), axes.y(p.low), axes.y(p.high));
    }
    for (const auto& [x, y] : line) {
      out += fmt::format("<circle class=\"{} dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"/>\n", color, x, y);
    }
    const double last = curve.points.back().value;
    return out +
           fmt::format("<text class=\"value\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.3f}</text>\n",
                       line.back().first, line.back().second - 8, last);
  }
  constexpr size_t kFewPoints = 60;
  if (curve.kind == Curve::Kind::exact || curve.points.size() < kFewPoints)
    return polyline(line, fmt::format("class=\"{} line\"", color));
  const std::vector<double> values = smoothed(curve.points, 0.85);
  for (size_t i = 0; i < values.size(); ++i) smooth.emplace_back(line[i].first, axes.y(values[i]));
  return polyline(line, fmt::format("class=\"{} raw\"", color)) +
         polyline(smooth, fmt::format("class=\"{} line\"", color));
}

// A panel's curves by name, on its title's line from the right.
std::string draw_key(const Panel& panel, Box box) {
  std::string out;
  double x = box.x + box.width;
  for (auto c = panel.curves.rbegin(); c != panel.curves.rend(); ++c) {
    out += fmt::format("<text class=\"c{} name\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                       c->color % kColors, x, box.y - 10, escape_html(c->name));
    x -= 7. * double(c->name.size()) + 10;
  }
  return out;
}

std::string draw_panel(const Panel& panel, Range steps, Box outer, bool keyed) {
  const Box box{outer.x + kLeft, outer.y + kTop, outer.width - kLeft - kRight, outer.height - kTop - kBottom};
  const Axes axes(panel, steps, box);
  std::string out = fmt::format(
      "<text class=\"title\" x=\"{:.1f}\" y=\"{:.1f}\">{}<tspan class=\"unit\"> {}</tspan></text>\n", box.x,
      box.y - 10, escape_html(panel.title), escape_html(panel.unit));
  for (double tick : axes.value_ticks()) {
    out += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}h{:.1f}\"/>", box.x, axes.y(tick), box.width);
    out += fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                       box.x - 6, axes.y(tick) + 4, label_of(tick));
  }
  for (double tick : axes.step_ticks()) {
    out += fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                       axes.x(tick), box.y + box.height + 17, label_of(tick));
  }
  if (keyed && panel.curves.size() > 1) out += draw_key(panel, box);
  for (const Curve& curve : panel.curves) out += draw_curve(curve, axes);
  return out;
}

Range steps_in(const std::vector<Panel>& panels) {
  Range range{INFINITY, -INFINITY};
  for (const Panel& panel : panels) {
    for (const Curve& c : panel.curves) {
      range.low = std::min(range.low, double(c.points.front().step));
      range.high = std::max(range.high, double(c.points.back().step));
    }
  }
  return {std::min(range.low, range.high - 1), range.high};
}

// The runs by color, in rows of three.
std::string draw_legend(const std::vector<std::string>& names, double y) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    out += fmt::format("<text class=\"c{} name\" x=\"{:.1f}\" y=\"{:.1f}\">\u25cf {}</text>\n", i % kColors,
                       kMargin + double(i % 3) * (kWidth - 2 * kMargin) / 3, y + 20. * double(i / 3),
                       escape_html(names[i]));
  }
  return out;
}

std::string style() {
  std::string light, dark, classes;
  for (int i = 0; i < kColors; ++i) {
    light += fmt::format("--c{}:{};", i, kPalette[size_t(i)].light);
    dark += fmt::format("--c{}:{};", i, kPalette[size_t(i)].dark);
    classes +=
        fmt::format(".c{0}{{stroke:var(--c{0})}}.c{0}.dot,.c{0}.name{{fill:var(--c{0});stroke:none}}\n", i);
  }
  return fmt::format(
      "<style>\nsvg{{--back:#fff;--text:#1d2733;--faint:#5c6773;--grid:#e3e7eb;{}}}\n"
      "@media "
      "(prefers-color-scheme:dark){{svg{{--back:#11161c;--text:#e4e9ee;--faint:#9aa6b2;--grid:#28313a;{}}}}}"
      "\n"
      "text{{font:12px system-ui,sans-serif;fill:var(--text)}}.head{{font-size:16px;font-weight:600}}\n"
      ".title{{font-weight:600}}.unit,.tick{{fill:var(--faint);font-weight:400}}.value{{font-size:11px;paint-"
      "order:stroke;stroke:var(--back);stroke-width:4px}}\n"
      ".grid{{stroke:var(--grid)}}polyline{{fill:none;stroke-linejoin:round}}.line{{stroke-width:1.8}}\n"
      ".raw{{stroke-width:1;opacity:.3}}\n{}</style>\n",
      light, dark, classes);
}

}  // namespace

std::string svg_of(const std::string& title, const std::vector<std::string>& names,
                   const std::vector<Panel>& panels) {
  const bool several = names.size() > 1;
  const double legend = several ? 20. * double((names.size() + 2) / 3) + 6 : 0;
  const Range steps = steps_in(panels);
  double y = kMargin + kTitle + legend;
  std::string drawn;
  for (size_t i = 0; i < panels.size(); ++i) {
    const bool first = i == 0, left = i % 2 == 1;
    const double width = first ? kWidth - 2 * kMargin : (kWidth - 2 * kMargin - kGap) / 2;
    const double x = first || left ? kMargin : kMargin + width + kGap;
    drawn += draw_panel(panels[i], steps, {x, y, width, first ? kFirstHeight : kHeight}, !several);
    if (first) y += kFirstHeight + kGap;
    if (!first && (!left || i + 1 == panels.size())) y += kHeight + kGap;
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\" "
             "aria-label=\"{2}\">\n{3}<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"var(--back)\"/>\n"
             "<text class=\"head\" x=\"{4:.0f}\" y=\"36\">{2}</text>\n",
             kWidth, y, escape_html(title), style(), kMargin) +
         (several ? draw_legend(names, kMargin + kTitle + 12) : "") + drawn + "</svg>\n";
}

}  // namespace genesis
