// Templates and variables that want too much are refused, soon and without harm.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "core/text/jinja/template.hpp"

namespace bp::text::jinja {
namespace {

using nlohmann::ordered_json;

std::string times(size_t n, const std::string& part) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += part;
  return out;
}

Result<std::string> render(const std::string& source, const ordered_json& variables,
                           const RenderOptions& options) {
  auto parsed = Template::parse(source);
  if (!parsed.ok()) return parsed.status();
  return parsed->render(variables, options);
}

// Small enough that each refusal takes a moment at most.
RenderOptions tight() {
  RenderOptions options;
  options.fuel = 1'000'000;
  options.max_output_bytes = 1 << 20;
  options.max_memory_bytes = 32 << 20;
  return options;
}

TEST(Limits, WhatNeverEndsOrGrowsWithoutBoundIsStopped) {
  const std::string loop = "{% set ns = namespace(s='x', l=[1]) %}{% for i in range(99) %}";
  const std::string on_long_text = "{% set x = 'a' * 1000000 %}{% for i in range(9999) %}";
  const std::string sources[] = {
      "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
      "{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
      loop + "{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      loop + "{% set ns.s = ns.s + ns.s %}{% endfor %}",
      loop + "{% set ns.l = ns.l + ns.l %}{% endfor %}",
      loop + "{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
      loop + "{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l|tojson }}",
      "{% set a = namespace(l=[1]) %}{% set b = namespace(l=[1]) %}{% for i in range(99) %}"
      "{% set a.l = [a.l, a.l] %}{% set b.l = [b.l, b.l] %}{% endfor %}{{ a.l == b.l }}",
      "{% set l = [] %}{% set _ = l.append(l) %}{{ l }}",
      "{% set l = [] %}{% set _ = l.append(l) %}{{ l|tojson }}",
      "{% set l = [] %}{% set k = [] %}{% set _ = l.append(k) %}{% set _ = k.append(l) %}"
      "{{ l == k }}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{{ 'x' * 1000000000000 }}",
      "{{ [1] * 1000000000000 }}",
      "{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}",
      "{{ ('a' * 1000000).replace('', 'b' * 1000) }}",
      "{{ ('b' * 1000000).join('a' * 1000) }}",
      "{{ range(99999)|join('b' * 1000) }}",
      "{{ 'a'.center(1000000000) }}",
      "{{ 'a'.zfill(1000000000) }}",
      "{{ '%999999999d' % 1 }}",
      "{{ '{:999999999}'.format(1) }}",
      "{{ [1]|batch(10000000000, 'x')|list }}",
      "{{ ('&' * 1000000)|e }}",
      "{{ ('a\\n' * 100000)|indent(1000) }}",
      "{{ ('a' * 1000000)|wordwrap(1) }}",
      "{{ ('a ' * 500000)|wordwrap(1, wrapstring='b' * 1000) }}",
      on_long_text + "{% if x|wordcount %}{% endif %}{% endfor %}",
      on_long_text + "{% if x.isalpha() %}{% endif %}{% endfor %}",
      on_long_text + "{% if x.rfind('b') %}{% endif %}{% endfor %}",
      on_long_text + "{% set y = [x]|string %}{% endfor %}",
      on_long_text + "{% if 'b' in x %}{% endif %}{% endfor %}",
      "{% set x = range(99999)|list %}{% for i in range(999) %}{% set y = x[:] %}{% endfor %}",
      "{% set x = range(99999)|list %}{% for i in range(999) %}{% if 0.5 in x %}{% endif %}{% "
      "endfor %}",
  };
  for (const std::string& source : sources) {
    const std::clock_t start = std::clock();
    const auto result = render(source, ordered_json::object(), tight());
    ASSERT_FALSE(result.ok()) << source;
    EXPECT_EQ(result.status().code(), Code::kOutOfMemory) << source << result.status().message();
    EXPECT_LT(std::clock() - start, 20 * CLOCKS_PER_SEC) << source;  // under any sanitizer
  }
}

// Each costs far more than its fuel where a comparison or a copy is not paid for.
TEST(Limits, WhatLooksAtMuchIsPaidFor) {
  const std::string shared = "{% set ns = namespace(t=(1,), u=(1,)) %}{% for i in range(29) %}";
  const std::string text = "{% set x = 'a' * 1000000 %}";
  const std::string pair = text + "{% set y = 'a' * 999999 ~ 'a' %}";
  std::string variables;
  for (int i = 0; i < 9999; ++i) variables += "{% set v" + std::to_string(i) + " = 1 %}";
  const std::string often = "{% for i in range(9999) %}", end = "{% endfor %}";
  const std::string sources[] = {
      shared + "{% set ns.t = (ns.t, ns.t, ns.t, ns.t) %}{% endfor %}{{ {ns.t: 1} }}",
      shared + "{% set ns.t = (ns.t, ns.t, ns.t, ns.t) %}{% endfor %}{{ ns.t in {} }}",
      shared + "{% set ns.t = (ns.t, ns.t, ns.t, ns.t) %}{% endfor %}{{ [ns.t]|unique|list }}",
      text + "{% set y = 'b' * 999999 ~ 'a' %}" + often + "{% if x.strip(y) %}{% endif %}" + end,
      pair + "{% set d = {y: 1} %}" + often + "{% if d[x] %}{% endif %}" + end,
      pair + "{% set d = {y: 1} %}" + often + "{% if x in d %}{% endif %}" + end,
      pair + "{% set d = {y: 1} %}" + often + "{% if d.get(x) %}{% endif %}" + end,
      pair + often + "{% if x is sameas y %}{% endif %}" + end,
      text + "{{ x.startswith(('a' * 999999 ~ 'b',) * 9999) }}",
      text + often + "{% if x[0] %}{% endif %}" + end,
      "{% set x = '0' * 1000000 %}" + often + "{{ x|filesizeformat }}" + end,
      "{{ ([''] * 9999)|map('map', 'upper', *range(9999))|list|length }}",
      "{% set l = range(99999)|list %}" + often + "{% set _ = l.remove(l[0]) %}" + end,
      variables + often + "{% if v0 %}{% endif %}" + end,
  };
  for (const std::string& source : sources) {
    const auto result = render(source, ordered_json::object(), tight());
    ASSERT_FALSE(result.ok()) << source;
    EXPECT_EQ(result.status().code(), Code::kOutOfMemory) << source << result.status().message();
  }
}

// Comparing one with the other takes a step for each level, not two for each step below.
TEST(Limits, NestedKeysAreComparedOnce) {
  const std::string nested =
      "{% set ns = namespace(t=(1,), u=(1,)) %}{% for i in range(29) %}"
      "{% set ns.t = (ns.t,) %}{% set ns.u = (ns.u,) %}{% endfor %}";
  const ordered_json none = ordered_json::object();
  const std::clock_t start = std::clock();
  EXPECT_EQ(*render(nested + "{{ {ns.t: 'a'}[ns.u] }}", none, tight()), "a");
  EXPECT_LT(std::clock() - start, CLOCKS_PER_SEC);
}

TEST(Limits, AbsurdSizesAreErrors) {
  const char* sources[] = {
      "{{ 10 ** 10 ** 10 }}",
      "{{ [1]|slice(10000000000)|list }}",
      "{{ 'a'|indent(10000000000) }}",
      "{{ '\t'.expandtabs(100000000) }}",
      "{{ '%.999999999f' % 1 }}",
      "{{ range(1000000000000000000000000000) }}",
      "{{ 1.5|round(1000000) }}",
      "{{ strftime_now('%999999999d') }}",
      "{{ strftime_now('a' * 1000000) }}",
      "{{ -170141183460469231731687303715884105727 - 2 }}",
  };
  for (const char* source : sources) {
    EXPECT_FALSE(render(source, ordered_json::object(), tight()).ok()) << source;
  }
}

TEST(Limits, DeepSourceIsASyntaxError) {
  constexpr size_t kDeep = 100'000;
  struct Nesting {
    const char *start, *open, *close, *end;
  };
  const Nesting nestings[] = {
      {"{{ ", "(", ")", " }}"},
      {"{{ ", "[", "]", " }}"},
      {"{{ ", "{1:", "}", " }}"},
      {"{{ ", "-", "", " }}"},
      {"{{ ", "not ", "", " }}"},
      {"{{ ", "f(", ")", " }}"},
      {"{{ ", "a[", "]", " }}"},
      {"{{ ", "a|d(", ")", " }}"},
      {"{{ ", "a is eq(", ")", " }}"},
      {"{{ ", "1 if 1 else ", "", " }}"},
      {"{% set ", "(", ")", " = 1 %}"},
      {"{% for ", "(", ")", " in a %}{% endfor %}"},
      {"", "{% if 1 %}", "{% endif %}", ""},
      {"", "{% for x in y %}", "{% endfor %}", ""},
      {"", "{% macro f() %}", "{% endmacro %}", ""},
      {"", "{% set x %}", "{% endset %}", ""},
      {"", "{% filter upper %}", "{% endfilter %}", ""},
      {"", "{% call f() %}", "{% endcall %}", ""},
      {"", "{% with %}", "{% endwith %}", ""},
      {"", "{% generation %}", "{% endgeneration %}", ""},
  };
  for (const Nesting& n : nestings) {
    const auto parsed =
        Template::parse(n.start + times(kDeep, n.open) + "a" + times(kDeep, n.close) + n.end);
    ASSERT_FALSE(parsed.ok()) << n.open;
    EXPECT_THAT(parsed.status().message(), testing::HasSubstr("nesting is too deep")) << n.open;
  }
}

TEST(Limits, LongChainsAreNotDeep) {
  constexpr size_t kLong = 50'000;
  const ordered_json none = ordered_json::object();
  EXPECT_EQ(*render("{{ 1" + times(kLong, " + 1") + " }}", none, {}), "50001");
  EXPECT_EQ(*render("{{ 'a'" + times(kLong, "|upper") + " }}", none, {}), "A");
  EXPECT_EQ(*render("{{ 'a'" + times(kLong, ".upper()") + " }}", none, {}), "A");
  EXPECT_EQ(*render("{{ 0" + times(kLong, " or 0") + " }}", none, {}), "0");
  EXPECT_EQ(*render("{{ 1" + times(kLong, " < 2 > 1") + " }}", none, {}), "True");
  EXPECT_EQ(*render("{{ 1" + times(kLong, " if 1") + " }}", none, {}), "1");
  EXPECT_EQ(render("{{ ''" + times(kLong, " ~ 'a'") + " }}", none, {})->size(), kLong);
  EXPECT_EQ(
      *render("{% if 0 %}" + times(kLong, "{% elif 0 %}") + "{% else %}x{% endif %}", none, {}),
      "x");
}

TEST(Limits, DeepVariablesAreRefused) {
  ordered_json list = ordered_json::array(), dict = ordered_json::object();
  for (int i = 0; i < 100'000; ++i) {
    list = ordered_json::array({std::move(list)});
    dict = ordered_json::object({{"a", std::move(dict)}});
  }
  EXPECT_EQ(render("x", {{"deep", std::move(list)}}, {}).status().code(), Code::kOutOfMemory);
  EXPECT_EQ(render("x", {{"deep", std::move(dict)}}, {}).status().code(), Code::kOutOfMemory);
}

TEST(Limits, TheSourceHasALimit) {
  EXPECT_FALSE(Template::parse(std::string(5 << 20, 'x')).ok());
}

TEST(Limits, EveryBudgetFailsCleanly) {
  const std::string source =
      "{% macro f(x) %}{{ x|upper }}{% endmacro %}{% for i in range(9) %}{{ f('a' ~ i) }}"
      "{{ {'k': [i]}|tojson }}{% endfor %}";
  const ordered_json variables = {{"a", {1, 2, 3}}};
  const auto whole = render(source, variables, {});
  ASSERT_TRUE(whole.ok());
  for (uint64_t fuel = 0; fuel < 400; ++fuel) {
    RenderOptions options;
    options.fuel = fuel;
    const auto result = render(source, variables, options);
    EXPECT_TRUE(!result.ok() || *result == *whole);
  }
  for (size_t bytes = 0; bytes < 20'000; bytes += 50) {
    RenderOptions options;
    options.max_memory_bytes = bytes;
    const auto result = render(source, variables, options);
    EXPECT_TRUE(!result.ok() || *result == *whole);
  }
  for (int depth = 0; depth < 30; ++depth) {
    RenderOptions options;
    options.max_depth = depth;
    const auto result = render(source, variables, options);
    EXPECT_TRUE(!result.ok() || *result == *whole);
  }
}

}  // namespace
}  // namespace bp::text::jinja
