// How much of the machine other programs used during a measurement, which is then off by as much.
#pragma once

namespace mala::bench {

class Bystanders {
 public:
  Bystanders();

  // Cores that others kept busy since this was made, as a mean; 0 where the system does not tell.
  double cores() const;

  // Says so on stderr where it is enough to spoil times.
  void warn() const;

 private:
  double start_, busy_, own_;  // seconds: on the clock, of all programs, of this one
};

}  // namespace mala::bench
