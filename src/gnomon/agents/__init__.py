"""An endpoint between an agent's program and the policy: chat requests in, sampled tokens recorded id for id."""
