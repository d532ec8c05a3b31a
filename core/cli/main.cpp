#include "core/cli/command_line.hpp"

int main(int argc, char** argv) {
  return bp::cli::run_command_line(argc, argv);
}
