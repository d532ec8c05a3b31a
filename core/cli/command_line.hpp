#pragma once
// From argv to one command and its exit code: 0 done, 2 for a wrong command line, 1 for every other
// failure.

namespace bp::cli {

int run_command_line(int argc, char** argv);

}  // namespace bp::cli
