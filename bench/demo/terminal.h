// Text for a terminal of 80 columns: headings and bars, bold only where somebody is looking.
#pragma once

#include <string>

namespace mala::bench {

// Printed with a line below, or bold on a terminal that is not told otherwise (NO_COLOR).
void print_heading(const std::string& text);

// A bar of '#' for value, `longest` being the value that fills it; at least one mark.
std::string bar(double value, double longest);

}  // namespace mala::bench
