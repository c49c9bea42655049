// What a launch description asks the twin to look for, in the runtime's terms.
#ifndef KOPE_HARNESS_OPTIONS_H
#define KOPE_HARNESS_OPTIONS_H

#include "kope_twin/control.h"
#include "launch.h"

namespace harness {

// Mode and order of blocks are each case's own.
inline kope_twin::control::Options options_of(const LaunchPlan& launch)
{
    kope_twin::control::Options options;
    options.strict = launch.strict;
    options.adversarial = launch.adversarial;
    options.checks = launch.checks;
    options.spans = launch.spans;
    return options;
}

} // namespace harness

#endif
