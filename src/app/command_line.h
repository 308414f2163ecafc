#pragma once

namespace waybill::app {

// Does what the command line asks for; returns what the process ends with.
int run_command_line(int argc, char** argv);

}  // namespace waybill::app
