#pragma once
// Tokens to syntax tree, by recursive descent with a budget on nesting.

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/jinja/ast.hpp"
#include "core/text/jinja/lexer.hpp"

namespace bp::text::jinja {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  TemplateAst parse();

 private:
  static constexpr int kMaxNesting = 128;  // of blocks and brackets together

  // One per level of recursion.
  class Level {
   public:
    explicit Level(Parser& parser);
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Parser& parser_;
  };

  // Token stream (parser.cpp).
  const Token& current() const { return tokens_[at_]; }
  const Token& peek() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token& next();
  bool is_operator(std::string_view text) const;
  bool is_name(std::string_view text) const;
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  void expect_name(std::string_view text);
  void expect_block_end();
  Text expect_identifier();
  [[noreturn]] void unexpected() const;

  // Statements (parser_statements.cpp).
  Block parse_block(std::initializer_list<std::string_view> ends, const char* opened_by);
  Block parse_body(std::string_view end, const char* opened_by);
  bool at_end_tag(std::initializer_list<std::string_view> ends) const;
  Statement parse_statement();
  ExprPtr parse_print();
  If parse_if();
  For parse_for();
  Statement parse_set(int line);
  Statement parse_macro(int line);
  Statement parse_call_block(int line);
  With parse_with();
  Scoped parse_named_block();
  void parse_parameters(Macro& macro);
  Target parse_target_list(std::string_view end_name);
  Target parse_target();

  // Expressions (parser_expressions.cpp).
  enum class Ternary { kAllowed, kNot };
  ExprPtr parse_expression(Ternary ternary = Ternary::kAllowed);
  ExprPtr parse_tuple(Ternary ternary, bool parenthesized, std::string_view end_name = "");
  ExprPtr parse_conditional();
  ExprPtr parse_logical(bool is_and);
  ExprPtr parse_not();
  ExprPtr parse_comparison();
  bool parse_compare_op(CompareOp& op);
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  template <class ParseOperand>
  ExprPtr parse_arithmetic(std::initializer_list<std::pair<std::string_view, ArithmeticOp>> ops,
                           ParseOperand parse_operand);
  ExprPtr parse_unary(bool with_filters);
  ExprPtr parse_primary();
  ExprPtr parse_string();
  ExprPtr parse_number();
  ExprPtr parse_list();
  ExprPtr parse_dict();

  // Postfix chains (parser_chains.cpp).
  ExprPtr parse_links(ExprPtr base, bool with_filters);
  Link parse_attribute_or_item();
  Link parse_subscript();
  Link parse_filter();
  Link parse_test();
  std::string parse_dotted_name();
  CallArguments parse_arguments();
  std::vector<Link> parse_filters();

  template <class Node>
  ExprPtr make(int line, Node node) {
    return std::make_unique<Expr>(Expr{line, std::move(node)});
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;               // for statements around the current one, within the macro
  std::vector<Macro*> macros_;  // being parsed, innermost last
};

}  // namespace bp::text::jinja
