"""The study: every protocol on the same workloads and churn, in virtual time, and what each costs."""
