#include "core/text/jinja/evaluator.hpp"

#include <algorithm>

#include "core/text/jinja/formatting.hpp"

namespace bp::text::jinja {
namespace {

// Moves the argument `name` out of the named ones; false where it was not given.
bool take_named(Runtime& runtime, Arguments& arguments, const Text& name, Value& value) {
  runtime.spend_look_up(name.str().size(), arguments.named.size());
  auto it = std::find_if(arguments.named.begin(), arguments.named.end(),
                         [&](const auto& entry) { return entry.first.str() == name.str(); });
  if (it == arguments.named.end()) return false;
  value = std::move(it->second);
  arguments.named.erase(it);
  return true;
}

}  // namespace

const Value* Scope::find(Runtime& runtime, std::string_view name) const {
  size_t n = 0;
  for (const Scope* scope = this; scope; scope = scope->parent.get()) n += scope->variables.size();
  runtime.spend_look_up(name.size(), n);
  for (const Scope* scope = this; scope; scope = scope->parent.get()) {
    for (const auto& [key, value] : scope->variables) {
      if (key.str() == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(Runtime& runtime, const Text& name, Value value) {
  runtime.spend_look_up(name.str().size(), variables.size());
  for (auto& [key, slot] : variables) {
    if (key.str() == name.str()) {
      slot = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

// Opens a scope inside `parent` and returns to the present one at its end.
class Evaluator::ScopeGuard {
 public:
  ScopeGuard(Evaluator& evaluator, std::shared_ptr<Scope> parent)
      : evaluator_(evaluator), previous_(evaluator.scope_) {
    evaluator_.scope_ = std::make_shared<Scope>(std::move(parent));
  }
  explicit ScopeGuard(Evaluator& evaluator) : ScopeGuard(evaluator, evaluator.scope_) {}
  ~ScopeGuard() { evaluator_.scope_ = std::move(previous_); }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Evaluator& evaluator_;
  std::shared_ptr<Scope> previous_;
};

// Sends what is written into `output` until its end.
class Evaluator::OutputGuard {
 public:
  OutputGuard(Evaluator& evaluator, Output& output)
      : evaluator_(evaluator), previous_(std::exchange(evaluator.output_, &output)) {}
  ~OutputGuard() { evaluator_.output_ = previous_; }
  OutputGuard(const OutputGuard&) = delete;
  OutputGuard& operator=(const OutputGuard&) = delete;

 private:
  Evaluator& evaluator_;
  Output* previous_;
};

std::string Evaluator::render(const TemplateAst& ast) {
  return capture(ast.body);
}

std::string Evaluator::capture(const Block& body) {
  Output output(runtime_);
  OutputGuard guard(*this, output);
  execute(body);
  return output.take();
}

Evaluator::Flow Evaluator::execute(const Block& block) {
  for (const Statement& statement : block) {
    if (const Flow flow = execute(statement); flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::execute(const Statement& statement) {
  Runtime::Level level(runtime_);
  runtime_.spend();
  runtime_.line = statement.line;
  return std::visit([this](const auto& node) { return run(node); }, statement.node);
}

Evaluator::Flow Evaluator::run(const Data& node) {
  output_->append(node.text);
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run(const Print& node) {
  write_str(*output_, runtime_, evaluate(*node.value));
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run(const If& node) {
  for (const auto& [condition, body] : node.branches) {
    if (truthy(evaluate(*condition))) return execute(body);
  }
  return execute(node.otherwise);
}

Evaluator::Flow Evaluator::run(const For& node) {
  return run_loop(node, evaluate(*node.iterable), 0);
}

// The items that pass the loop's filter.
std::vector<Value> Evaluator::loop_items(const For& node, const Value& iterable) {
  std::vector<Value> items = iterate(runtime_, iterable);
  if (!node.filter) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    ScopeGuard scope(*this);
    assign(node.target, item);
    if (truthy(evaluate(*node.filter))) kept.push_back(std::move(item));
  }
  return kept;
}

Evaluator::Flow Evaluator::run_loop(const For& node, Value iterable, int depth0) {
  static const Text kLoop("loop");
  std::vector<Value> items = loop_items(node, iterable);
  const size_t items_bytes = items.capacity() * sizeof(Value);
  runtime_.meter().add(items_bytes);
  Loop* loop = runtime_.make<Loop>(std::move(items));
  loop->depth0 = depth0;
  if (node.recursive) {
    loop->recursive = &node;
    loop->outer = scope_;
  }
  bool completed = false;  // one iteration, without break or continue: then `else` is not run
  for (; loop->index0 < loop->items.size(); ++loop->index0) {
    runtime_.spend();
    ScopeGuard scope(*this);
    scope_->set(runtime_, kLoop, loop);
    assign(node.target, loop->items[loop->index0]);
    const Flow flow = execute(node.body);
    if (flow == Flow::kBreak) break;
    completed = completed || flow == Flow::kNext;
  }
  std::vector<Value>().swap(loop->items);
  runtime_.meter().release(items_bytes);
  if (completed) return Flow::kNext;
  ScopeGuard scope(*this);
  return execute(node.otherwise);
}

// What a recursive for statement writes for other items.
Value Evaluator::repeat_loop(const Loop& loop, const Value& iterable) {
  Runtime::Level level(runtime_);
  ScopeGuard scope(*this, loop.outer);
  Output output(runtime_);
  OutputGuard guard(*this, output);
  run_loop(*loop.recursive, iterable, loop.depth0 + 1);
  return runtime_.text(output.take());
}

Evaluator::Flow Evaluator::run(const Set& node) {
  assign(node.target, evaluate(*node.value));
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run(const SetBlock& node) {
  Value text;
  {
    ScopeGuard scope(*this);
    text = runtime_.text(capture(node.body));
  }
  assign(node.target, apply_filters(node.filters, std::move(text)));
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run(const MacroDefinition& node) {
  scope_->set(runtime_, node.macro->name, runtime_.make<MacroObject>(*this, node.macro, scope_));
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run(const CallBlock& node) {
  const Value caller = runtime_.make<MacroObject>(*this, node.caller, scope_);
  write_str(*output_, runtime_, follow(std::get<Chain>(node.call->node), &caller));
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run(const FilterBlock& node) {
  ScopeGuard scope(*this);
  Value text = runtime_.text(capture(node.body));
  const Value filtered = apply_filters(node.filters, std::move(text));
  if (!filtered.get<Text>()) {
    fail(std::string("a filter block gives a str, not ") + type_name(filtered));
  }
  write_str(*output_, runtime_, filtered);
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run(const With& node) {
  std::vector<Value> values;
  for (const auto& [target, value] : node.assignments) values.push_back(evaluate(*value));
  ScopeGuard scope(*this);
  for (size_t i = 0; i < values.size(); ++i) {
    assign(node.assignments[i].first, std::move(values[i]));
  }
  return execute(node.body);
}

Evaluator::Flow Evaluator::run(const Scoped& node) {
  ScopeGuard scope(*this);
  return execute(node.body);
}

void Evaluator::assign(const Target& target, Value value) {
  if (target.attribute) return assign_attribute(target, std::move(value));
  if (!target.is_tuple) return scope_->set(runtime_, target.name, std::move(value));
  std::vector<Value> parts = iterate(runtime_, value);
  const size_t n = target.items.size();
  if (parts.size() > n) {
    fail("too many values to unpack (expected " + std::to_string(n) + ")");
  }
  if (parts.size() < n) {
    fail("not enough values to unpack (expected " + std::to_string(n) + ", got " +
         std::to_string(parts.size()) + ")");
  }
  for (size_t i = 0; i < n; ++i) assign(target.items[i], std::move(parts[i]));
}

void Evaluator::assign_attribute(const Target& target, Value value) {
  const Value* object = scope_->find(runtime_, target.name.str());
  if (!object) object = runtime_.find(variables_, target.name.str());
  auto* ns = object ? object->object<Namespace>() : nullptr;
  if (!ns) fail("cannot assign attribute on non-namespace object");
  runtime_.set(*ns->attributes, *target.attribute, std::move(value));
}

// Declares the macro's parameters in the current scope.
void Evaluator::bind_parameters(const Macro& macro, Arguments& arguments) {
  static const Text kCaller("caller"), kKwargs("kwargs"), kVarargs("varargs");
  size_t given = 0;
  bool has_caller = false;
  Value value;
  for (const auto& [name, fallback] : macro.parameters) {
    has_caller = has_caller || name.str() == kCaller.str();
    if (given < arguments.positional.size()) {
      scope_->set(runtime_, name, std::move(arguments.positional[given++]));
    } else if (take_named(runtime_, arguments, name, value)) {
      scope_->set(runtime_, name, std::move(value));
    } else if (fallback) {
      scope_->set(runtime_, name, evaluate(*fallback));
    } else {
      scope_->set(runtime_, name,
                  Value::undefined(Text("parameter '" + name.str() + "' was not provided"), ""));
    }
  }
  if (macro.uses_caller && !has_caller) {
    if (!take_named(runtime_, arguments, kCaller, value)) {
      value = Value::undefined(Text("No caller defined"), "");
    }
    scope_->set(runtime_, kCaller, std::move(value));
  }
  const std::string name = "macro '" + macro.name.str() + "'";
  if (macro.uses_kwargs) {
    Dict* rest = runtime_.dict();
    for (auto& [key, extra] : arguments.named) runtime_.set(*rest, key, std::move(extra));
    scope_->set(runtime_, kKwargs, rest);
  } else if (!arguments.named.empty()) {
    fail(name + " takes no keyword argument '" + arguments.named[0].first.str() + "'");
  }
  if (macro.uses_varargs) {
    std::vector<Value> rest(
        std::make_move_iterator(arguments.positional.begin() + static_cast<std::ptrdiff_t>(given)),
        std::make_move_iterator(arguments.positional.end()));
    scope_->set(runtime_, kVarargs, runtime_.tuple(std::move(rest)));
  } else if (given < arguments.positional.size()) {
    fail(name + " takes not more than " + std::to_string(macro.parameters.size()) + " argument(s)");
  }
}

Value Evaluator::call_macro(const Macro& macro, const std::shared_ptr<Scope>& definition_scope,
                            Arguments arguments) {
  Runtime::Level level(runtime_);
  const int line = runtime_.line;
  ScopeGuard scope(*this, definition_scope);
  bind_parameters(macro, arguments);
  Value text = runtime_.text(capture(macro.body));
  runtime_.line = line;
  return text;
}

}  // namespace bp::text::jinja
