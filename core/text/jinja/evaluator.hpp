#pragma once
// Walks the syntax tree once, writing text. One render, one thread.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/jinja/ast.hpp"
#include "core/text/jinja/loop.hpp"
#include "core/text/jinja/runtime.hpp"

namespace bp::text::jinja {

// Variables of one block; macros keep the scope they were defined in.
struct Scope {
  explicit Scope(std::shared_ptr<Scope> p) : parent(std::move(p)) {}

  // Here or in a parent.
  const Value* find(Runtime& runtime, std::string_view name) const;
  void set(Runtime& runtime, const Text& name, Value value);

  std::shared_ptr<Scope> parent;
  std::vector<std::pair<Text, Value>> variables;
};

class Evaluator {
 public:
  // `variables` are what the caller of the template gave.
  Evaluator(Runtime& runtime, const Dict& variables)
      : runtime_(runtime), variables_(variables), scope_(std::make_shared<Scope>(nullptr)) {}

  std::string render(const TemplateAst& ast);

  // Runs a macro with arguments that the template wrote.
  Value call_macro(const Macro& macro, const std::shared_ptr<Scope>& definition_scope,
                   Arguments arguments);

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class ScopeGuard;
  class OutputGuard;

  // Statements (evaluator.cpp).
  Flow execute(const Block& block);
  Flow execute(const Statement& statement);
  Flow run(const Data& node);
  Flow run(const Print& node);
  Flow run(const If& node);
  Flow run(const For& node);
  Flow run(const Set& node);
  Flow run(const SetBlock& node);
  Flow run(const MacroDefinition& node);
  Flow run(const CallBlock& node);
  Flow run(const FilterBlock& node);
  Flow run(const With& node);
  Flow run(const Scoped& node);
  Flow run(const Break&) { return Flow::kBreak; }
  Flow run(const Continue&) { return Flow::kContinue; }

  Flow run_loop(const For& node, Value iterable, int depth0);
  Value repeat_loop(const Loop& loop, const Value& iterable);
  std::vector<Value> loop_items(const For& node, const Value& iterable);
  std::string capture(const Block& body);
  void assign(const Target& target, Value value);
  void assign_attribute(const Target& target, Value value);
  void bind_parameters(const Macro& macro, Arguments& arguments);

  // Expressions (evaluator_expressions.cpp).
  Value evaluate(const Expr& expr);
  Value eval(const Literal& node);
  Value eval(const Name& node);
  Value eval(const ListLiteral& node);
  Value eval(const TupleLiteral& node);
  Value eval(const DictLiteral& node);
  Value eval(const Conditional& node);
  Value eval(const Logical& node);
  Value eval(const Not& node);
  Value eval(const Compare& node);
  Value eval(const Arithmetic& node);
  Value eval(const Concat& node);
  Value eval(const Sign& node);
  Value eval(const Chain& node);

  // Follows the links; the last one, a call, is also given `caller`.
  Value follow(const Chain& chain, const Value* caller);
  // Applies link i, and the call behind it where that saves a bound method. Moves i on.
  Value follow_link(const Chain& chain, size_t& i, const Value& value, const Value* caller);
  Value apply_filter(const FilterLink& filter, const Value& value);
  Value apply_test(const TestLink& test, const Value& value);
  Value apply_filters(const std::vector<Link>& filters, Value value);
  Value get_slice_of(const SliceLink& slice, const Value& value);
  Value call(const Value& callee, Arguments arguments);
  Value call_loop(Loop& loop, const Arguments& arguments);
  Arguments evaluate_arguments(const CallArguments& arguments);
  std::vector<Value> evaluate_all(const std::vector<ExprPtr>& items);

  Runtime& runtime_;
  const Dict& variables_;
  std::shared_ptr<Scope> scope_;
  Output* output_ = nullptr;
};

// A macro as a value.
struct MacroObject : Callable {
  MacroObject(Evaluator& e, std::shared_ptr<const Macro> m, std::shared_ptr<Scope> s)
      : evaluator(e), macro(std::move(m)), scope(std::move(s)) {}
  Value call(Runtime&, Arguments arguments) override {
    return evaluator.call_macro(*macro, scope, std::move(arguments));
  }
  Evaluator& evaluator;
  std::shared_ptr<const Macro> macro;
  std::shared_ptr<Scope> scope;
};

}  // namespace bp::text::jinja
