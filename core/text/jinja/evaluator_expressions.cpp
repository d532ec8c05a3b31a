#include "core/text/jinja/evaluator.hpp"
#include "core/text/jinja/formatting.hpp"

namespace bp::text::jinja {

Value Evaluator::evaluate(const Expr& expr) {
  Runtime::Level level(runtime_);
  runtime_.spend();
  runtime_.line = expr.line;
  return std::visit([this](const auto& node) { return eval(node); }, expr.node);
}

std::vector<Value> Evaluator::evaluate_all(const std::vector<ExprPtr>& items) {
  std::vector<Value> values;
  values.reserve(items.size());
  for (const ExprPtr& item : items) values.push_back(evaluate(*item));
  return values;
}

Value Evaluator::eval(const Literal& node) {
  return node.value;
}

Value Evaluator::eval(const Name& node) {
  const std::string& name = node.name.str();
  if (const Value* value = scope_->find(runtime_, name)) return *value;
  if (const Value* value = runtime_.find(variables_, name)) return *value;
  if (const Builtin* global = find_global(name)) {
    return runtime_.make<BoundBuiltin>(global, Value());
  }
  return Value::undefined(node.name);
}

Value Evaluator::eval(const ListLiteral& node) {
  return runtime_.list(evaluate_all(node.items));
}

Value Evaluator::eval(const TupleLiteral& node) {
  return runtime_.tuple(evaluate_all(node.items));
}

Value Evaluator::eval(const DictLiteral& node) {
  Dict* dict = runtime_.dict();
  for (const auto& [key, value] : node.entries) {
    Value evaluated_key = evaluate(*key);
    runtime_.set(*dict, std::move(evaluated_key), evaluate(*value));
  }
  return dict;
}

Value Evaluator::eval(const Conditional& node) {
  static const Text kNoElse(
      "the inline if-expression evaluated to false and no else section was defined.");
  for (size_t i = node.conditions.size(); i-- > 0;) {
    if (truthy(evaluate(*node.conditions[i]))) continue;
    const bool is_last = i + 1 == node.conditions.size();
    if (is_last && node.otherwise) return evaluate(*node.otherwise);
    return Value::undefined(kNoElse, "");
  }
  return evaluate(*node.value);
}

Value Evaluator::eval(const Logical& node) {
  Value value;
  for (const ExprPtr& operand : node.operands) {
    value = evaluate(*operand);
    if (truthy(value) != node.is_and) break;
  }
  return value;
}

Value Evaluator::eval(const Not& node) {
  return Value::boolean(!truthy(evaluate(*node.operand)));
}

Value Evaluator::eval(const Compare& node) {
  Value left = evaluate(*node.first);
  for (const auto& [op, operand] : node.rest) {
    Value right = evaluate(*operand);
    if (!compare(runtime_, op, left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Evaluator::eval(const Arithmetic& node) {
  Value value = evaluate(*node.first);
  for (const auto& [op, operand] : node.rest) {
    value = arithmetic(runtime_, op, value, evaluate(*operand));
  }
  return value;
}

Value Evaluator::eval(const Concat& node) {
  Output out(runtime_);
  for (const ExprPtr& operand : node.operands) write_str(out, runtime_, evaluate(*operand));
  return runtime_.text(out.take());
}

Value Evaluator::eval(const Sign& node) {
  const Value value = evaluate(*node.operand);
  return node.negative ? negate(value) : unary_plus(value);
}

Value Evaluator::eval(const Chain& node) {
  return follow(node, nullptr);
}

Value Evaluator::follow(const Chain& chain, const Value* caller) {
  Value value = evaluate(*chain.base);
  for (size_t i = 0; i < chain.links.size();) value = follow_link(chain, i, value, caller);
  return value;
}

Value Evaluator::follow_link(const Chain& chain, size_t& i, const Value& value,
                             const Value* caller) {
  static const Text kCaller("caller");
  const auto arguments_at = [&](size_t k) {
    Arguments arguments = evaluate_arguments(std::get<CallLink>(chain.links[k].step).arguments);
    const bool is_last = k + 1 == chain.links.size();
    if (caller && is_last) arguments.named.emplace_back(kCaller, *caller);
    runtime_.line = chain.links[k].line;
    return arguments;
  };
  const Link& link = chain.links[i++];
  runtime_.line = link.line;
  if (auto* attribute = std::get_if<AttributeLink>(&link.step)) {
    const bool called =
        i < chain.links.size() && std::holds_alternative<CallLink>(chain.links[i].step);
    const Builtin* method = called ? find_method(value, attribute->name.str()) : nullptr;
    if (!method) return get_attribute(runtime_, value, attribute->name);
    return call_builtin(runtime_, *method, value, arguments_at(i++));
  }
  if (auto* item = std::get_if<ItemLink>(&link.step)) {
    return get_item(runtime_, value, evaluate(*item->key));
  }
  if (auto* slice = std::get_if<SliceLink>(&link.step)) return get_slice_of(*slice, value);
  if (auto* filter = std::get_if<FilterLink>(&link.step)) return apply_filter(*filter, value);
  if (auto* test = std::get_if<TestLink>(&link.step)) return apply_test(*test, value);
  return call(value, arguments_at(i - 1));
}

Value Evaluator::get_slice_of(const SliceLink& slice, const Value& value) {
  const auto bound = [&](const ExprPtr& expr) { return expr ? evaluate(*expr) : Value::none(); };
  const Value start = bound(slice.start), stop = bound(slice.stop);
  return get_slice(runtime_, value, start, stop, bound(slice.step));
}

Value Evaluator::apply_filter(const FilterLink& filter, const Value& value) {
  if (!filter.filter) fail(missing_filter(filter.name));
  Arguments arguments = evaluate_arguments(filter.arguments);
  return call_builtin(runtime_, *filter.filter, value, std::move(arguments));
}

Value Evaluator::apply_test(const TestLink& test, const Value& value) {
  if (!test.test) fail("No test named '" + test.name + "'.");
  Arguments arguments = evaluate_arguments(test.arguments);
  const Value result = call_builtin(runtime_, *test.test, value, std::move(arguments));
  return test.negated ? Value::boolean(!truthy(result)) : result;
}

Value Evaluator::apply_filters(const std::vector<Link>& filters, Value value) {
  for (const Link& link : filters) {
    runtime_.line = link.line;
    value = apply_filter(std::get<FilterLink>(link.step), value);
  }
  return value;
}

Arguments Evaluator::evaluate_arguments(const CallArguments& arguments) {
  Arguments result;
  result.positional = evaluate_all(arguments.positional);
  for (const auto& [name, value] : arguments.named) {
    result.named.emplace_back(name, evaluate(*value));
  }
  if (arguments.star) {
    for (Value& item : iterate(runtime_, evaluate(*arguments.star))) {
      result.positional.push_back(std::move(item));
    }
  }
  if (arguments.double_star) {
    const Value mapping = evaluate(*arguments.double_star);
    auto* dict = mapping.object<Dict>();
    if (!dict) fail("argument after ** must be a mapping");
    runtime_.spend_values(dict->entries().size());
    for (const auto& [key, value] : dict->entries()) {
      auto* name = key.get<Text>();
      if (!name) fail("keywords must be strings");
      result.named.emplace_back(*name, value);
    }
  }
  return result;
}

Value Evaluator::call(const Value& callee, Arguments arguments) {
  require_defined(callee);
  if (auto* callable = callee.object<Callable>()) {
    return callable->call(runtime_, std::move(arguments));
  }
  if (auto* loop = callee.object<Loop>()) return call_loop(*loop, arguments);
  if (auto* joiner = callee.object<Joiner>()) {
    return std::exchange(joiner->used, true) ? joiner->separator : runtime_.text("");
  }
  fail(std::string("'") + type_name(callee) + "' object is not callable");
}

// Runs a recursive for statement again, on other items.
Value Evaluator::call_loop(Loop& loop, const Arguments& arguments) {
  if (!loop.recursive) fail("The loop must have the 'recursive' marker to be called recursively.");
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    fail("loop() takes one argument");
  }
  return repeat_loop(loop, arguments.positional[0]);
}

}  // namespace bp::text::jinja
