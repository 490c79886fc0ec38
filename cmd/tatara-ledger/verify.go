package main

import "github.com/spf13/cobra"

func newVerifyCommand() *cobra.Command { return &cobra.Command{Use: "verify"} }
