#pragma once

namespace bp::bench {

// Every later call of the process on the device fails.
void break_device();

}  // namespace bp::bench
