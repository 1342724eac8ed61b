"""RocketMQ's gRPC protocol as code: doors that speak it and clients of it. Made by protoc."""
