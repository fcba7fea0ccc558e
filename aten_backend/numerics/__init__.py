"""Numbers held against eager's: the policy, references by ATen, and the check of every group as it runs."""
