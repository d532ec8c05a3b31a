// Global functions.

#include <ctime>
#include <limits>
#include <string>

#include "core/text/jinja/builtin.hpp"
#include "core/text/jinja/formatting.hpp"
#include "core/text/jinja/operators.hpp"
#include "core/text/jinja/runtime.hpp"
#include "core/text/jinja/text_ops.hpp"

namespace bp::text::jinja {
namespace {

constexpr size_t kMaxRange = 100'000;  // as jinja2's sandbox
constexpr size_t kMaxFormat = 4096;    // bytes of strftime_now's

Value cycler(Runtime& runtime, const Value&, BoundArguments& args) {
  if (args.rest.positional.empty()) fail("at least one item has to be provided");
  return runtime.make<Cycler>(std::move(args.rest.positional));
}

void update(Runtime& runtime, Dict& dict, const Value& source) {
  if (auto* other = source.object<Dict>()) {
    for (const auto& [key, value] : other->entries()) runtime.set(dict, key, value);
    return;
  }
  for (const Value& pair : iterate(runtime, source)) {
    auto parts = iterate(runtime, pair);
    if (parts.size() != 2) fail("dictionary update sequence needs pairs");
    runtime.set(dict, std::move(parts[0]), std::move(parts[1]));
  }
}

Dict* make_dict(Runtime& runtime, const Arguments& arguments) {
  Dict* dict = runtime.dict();
  if (arguments.positional.size() > 1) fail("dict expected at most 1 argument");
  if (!arguments.positional.empty()) update(runtime, *dict, arguments.positional[0]);
  for (const auto& [name, value] : arguments.named) runtime.set(*dict, name, value);
  return dict;
}

Value dict(Runtime& runtime, const Value&, BoundArguments& args) {
  return make_dict(runtime, args.rest);
}

Value joiner(Runtime& runtime, const Value&, BoundArguments& args) {
  return runtime.make<Joiner>(args.find(0) ? args.at(0) : runtime.text(", "));
}

Value lipsum(Runtime&, const Value&, BoundArguments&) {
  fail("lipsum() is not supported: a prompt does not depend on chance");
}

Value make_namespace(Runtime& runtime, const Value&, BoundArguments& args) {
  return runtime.make<Namespace>(make_dict(runtime, args.rest));
}

Value raise_exception(Runtime& runtime, const Value&, BoundArguments& args) {
  throw TemplateError{ErrorKind::kRefusal, to_str(runtime, args.at(0))};
}

Integer bound(const BoundArguments& args, size_t i, Integer fallback) {
  const Integer n = args.integer(i, fallback);
  if (n > std::numeric_limits<int64_t>::max() || n < std::numeric_limits<int64_t>::min()) {
    fail("range: bound too large");
  }
  return n;
}

Value range(Runtime& runtime, const Value&, BoundArguments& args) {
  const bool single = !args.find(1);
  const Integer begin = single ? 0 : bound(args, 0, 0);
  const Integer end = bound(args, single ? 0 : 1, 0);
  const Integer step = bound(args, 2, 1);
  if (step == 0) fail("range() arg 3 must not be zero");
  const Integer span = step > 0 ? end - begin : begin - end;
  const Integer stride = step > 0 ? step : -step;
  const Integer count = span > 0 ? (span + stride - 1) / stride : 0;
  if (count > static_cast<Integer>(kMaxRange)) {
    fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
  }
  return runtime.make<Range>(begin, end, step, static_cast<size_t>(count));
}

Value strftime_now(Runtime& runtime, const Value&, BoundArguments& args) {
  const std::string given(args.text(0, ""));
  if (given.size() > kMaxFormat) fail("strftime_now: the format is too long");
  // Python's %f (microseconds) is unknown to strftime; the final mark tells an empty result
  // from one that does not fit.
  const std::string format = replace(given, "%f", "000000", std::string::npos) + "|";
  if (format.find('\0') != std::string::npos) fail("strftime_now: embedded null character");
  std::string buffer(format.size() * 16 + 256, '\0');
  const size_t n =
      std::strftime(buffer.data(), buffer.size(), format.c_str(), &runtime.options().now);
  if (n == 0) fail("strftime_now: the date does not fit");
  buffer.resize(n - 1);
  if (!is_valid_utf8(buffer)) fail("strftime_now: not UTF-8");
  return runtime.text(std::move(buffer));
}

constexpr Builtin kGlobals[] = {
    {"cycler", cycler, "*"},
    {"dict", dict, "*"},
    {"joiner", joiner, "sep"},
    {"lipsum", lipsum, "*"},
    {"namespace", make_namespace, "*"},
    {"raise_exception", raise_exception, "message", 1},
    {"range", range, "start stop step", 1},
    {"strftime_now", strftime_now, "format", 1},
};
static_assert(is_sorted_table(kGlobals));

}  // namespace

const Builtin* find_global(std::string_view name) {
  return find_in_table(kGlobals, name);
}

}  // namespace bp::text::jinja
